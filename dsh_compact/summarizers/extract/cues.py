"""Words that tell what a sentence is for: a correction, a decision, a cause, work that is left.

A table, not a grammar: a sentence that holds a cue is a candidate, and a false one costs a line of
a summary. Every language is looked for in every conversation, since people mix them. Cues are in
lower case; one that begins with `^` stands at the sentence's beginning only. A blank at a cue's end
or beginning is a word's border (a sentence is searched with a blank before and behind it, and its
punctuation as blanks).
"""

import re
from collections.abc import Iterable
from typing import Final

CORRECTIONS: Final = (
    "^no ", "^nope ", "^wait ", "^stop ", "^actually ", "^not ", "^don't ", "^do not ", "^never ",
    "^please don't ", "^rather ", " instead ", " rather than ", " must not ", " should not ",
    " shouldn't ", " don't ", " do not ", " never ", " always ", " only use ", " make sure ",
    " that's wrong ", " is wrong ", " i meant ", " i'd prefer ", " prefer ", " must ",
    "^nein ", "^halt ", "^doch ", "^nicht ", "^bitte nicht ", " stattdessen ", " statt ",
    " niemals ",
    " nie ", " immer ", " falsch ", " lieber ", " keinesfalls ", " auf keinen fall ", " gemeint ",
    " muss ", " darf nicht ", " nicht mehr ", " sondern ",
    "^non ", "^plutôt ", " plutôt ", " au lieu ", " ne pas ", " jamais ", " toujours ",
    " surtout pas ",
    " faux ", "^arrête ", " préfère ",
    "^mejor ", " en vez ", " en lugar ", " nunca ", " siempre ", " incorrecto ", " prefiero ",
    " no uses ", " no quiero ",
    "^não ", " em vez ", " sempre ", " errado ", " prefiro ", " jamais ",
    "^нет ", "^не ", " вместо ", " лучше ", " никогда ", " всегда ", " неправильно ", " нельзя ",
    " только ", " а не ",
    "不要", "不对", "不是", "别用", "别再", "应该", "改成", "改用", "必须", "而不是", "务必",
    "禁止", "错了",
    "ではなく", "じゃなく", "しないで", "使わないで", "必ず", "違います", "違う", "変えて",
    "にして",
    "말고", "아니", "하지 마", "대신", "반드시", "항상", "절대", "틀렸",
)  # fmt: skip
"""In a user's message: what shall be otherwise than it was, and what shall hold from now on."""

DECISIONS: Final = (
    " decided ", " decision ", " i'll use ", " i will use ", " we'll use ", " let's use ",
    " going with ", " go with ", " went with ", " chose ", " choose ", " instead of ",
    " rather than ",
    " agreed ", " the plan is ", " settled on ", " keep it ", " will not ", " won't ",
    " entschieden ", " entscheidung ", " ich nehme ", " wir nehmen ", " verwende ich ",
    " nehme ich ", " statt ", " anstelle ", " vereinbart ", " bleibt es ", " deshalb ",
    " décidé ", " décision ", " j'utilise ", " je garde ", " au lieu de ", " choisi ", " convenu ",
    " decidido ", " decisión ", " usaré ", " en vez de ", " en lugar de ", " elegido ",
    " acordado ",
    " decidi ", " decisão ", " vou usar ", " em vez de ", " escolhi ", " combinado ",
    " решил ", " решили ", " решение ", " буду использовать ", " вместо ", " выбрал ",
    " договорились ",
    "决定", "选择", "采用", "改为", "改用", "而不是", "方案", "约定",
    "決め", "採用", "ことにし", "ではなく", "方針", "選び",
    "결정", "선택", "대신", "사용하기로", "하기로", "방침",
)  # fmt: skip
"""In an answer: what was settled."""

CAUSES: Final = (
    " because ", " root cause ", " caused by ", " the cause ", " turns out ", " the problem was ",
    " the problem is ", " the issue was ", " the issue is ", " the bug ", " the fix ", " fixed by ",
    " the reason ", " due to ", " is fixed ", " fixed the ",
    " weil ", " ursache ", " lag an ", " lag daran ", " liegt an ", " liegt daran ", " behoben ",
    " der fehler ", " das problem ", " grund ",
    " parce que ", " cause ", " dû à ", " le problème ", " corrigé ", " raison ",
    " porque ", " causa ", " debido a ", " el problema ", " arreglado ", " corregido ",
    " devido a ", " o problema ", " corrigido ",
    " потому что ", " причина ", " из-за ", " проблема ", " исправил", " исправлен",
    "因为", "原因", "由于", "问题在于", "问题是", "修复",
    "原因", "ため", "問題は", "修正し",
    "때문", "원인", "문제는", "수정했",
)  # fmt: skip
"""In an answer: why something went wrong, and what mended it."""

OPEN_WORK: Final = (
    " todo ", " to-do ", " to do ", " still need", " still to ", " still missing ", " remaining ",
    " remains ", " not yet ", "^next ", " next step", " follow-up ", " left to do ", " pending ",
    " later ", " not done ", " haven't ",
    " noch zu ", " noch offen ", " noch nicht ", " als nächstes ", " fehlt noch ", " fehlen noch ",
    " offen ", " bleibt noch ", " später ", " steht noch ",
    " reste à ", " restent ", " prochaine étape ", " pas encore ", " à faire ", " ensuite ",
    " pendiente", " falta ", " faltan ", " por hacer ", " todavía no ", " aún no ",
    " siguiente paso ",
    " pendente", " ainda não ", " por fazer ", " próximo passo ", " falta ",
    " осталось ", " ещё не ", " еще не ", " дальше ", " следующ", " нужно ещё ",
    "待办", "接下来", "还需要", "下一步", "未完成", "尚未", "剩下", "还没",
    "残り", "次に", "次は", "まだ", "未完", "これから",
    "남은", "다음", "아직", "해야 할", "나머지",
)  # fmt: skip
"""In one of the last answers: what is still to be done."""

_PUNCTUATION: Final = re.compile(r"[\s,.;:!?()\[\]\"“”„«»*_`—–…，。！？；：、（）「」¡¿]+")


class Cues:
    """The cues of one kind, ready for many sentences of one text.

    Only those that the text holds at all are tried on its sentences: few or none.
    """

    def __init__(self, cues: Iterable[str], text: str) -> None:
        plain = _plain(text)
        self._inside = [cue for cue in cues if cue[0] != "^" and cue in plain]
        self._first = tuple(f" {cue[1:]}" for cue in cues if cue[0] == "^" and cue[1:] in plain)

    def __bool__(self) -> bool:
        return bool(self._inside or self._first)

    def hold(self, sentence: str) -> bool:
        """Whether one of the cues stands in the sentence."""
        if not self:
            return False
        plain = _plain(sentence)
        return plain.startswith(self._first) or any(cue in plain for cue in self._inside)


def _plain(text: str) -> str:
    return f" {_PUNCTUATION.sub(' ', text.lower())} ".replace("’", "'").replace("  ", " ")
