"""The conversation's own language: which one it is, and what a summary's fixed words are in it.

Quoted text stays as it was written; only headings and labels are translated. A language is told by
its script, and among those written in Latin letters by their commonest little words. What cannot be
told is English.
"""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from dsh_compact.summarizers.extract.outline import Section

LOOKED_AT_CHARS: Final = 20_000
"""Of a conversation, newest text last: a page tells the language as well as a book."""

LEAST_SHARE: Final = 0.1
"""Of all letters a script of its own needs this much: commands and code are Latin everywhere, and
a Chinese or Russian conversation is mostly about them."""

LEAST_WORDS: Final = 2
"""Little words of a language that must be met: one may be a name or a variable."""


class Phrases(Struct, frozen=True, kw_only=True):
    """A summary's fixed words; `more` and `times` hold a number at `{}`."""

    headings: dict[Section, str]
    read: str
    written: str
    edited: str
    deleted: str
    searched: str
    used: str
    ok: str
    failed: str
    unanswered: str
    mended: str
    still_open: str
    working_on: str
    said_last: str
    done_last: str
    attached: str
    nothing: str
    more: str
    times: str = "{}×"


def phrases_for(texts: Iterable[str]) -> Phrases:
    """The fixed words in the language of `texts`, of which the first `LOOKED_AT_CHARS` count."""
    return PHRASES[language_of(texts)]


def language_of(texts: Iterable[str]) -> str:
    """The language of `texts` as a code of two letters, one of `PHRASES`; English in doubt."""
    sample = _sample(texts)
    return _by_script(sample) or _by_words(sample)


def _sample(texts: Iterable[str]) -> str:
    parts: list[str] = []
    room = LOOKED_AT_CHARS
    for text in texts:
        parts.append(text[:room])
        room -= len(parts[-1])
        if room <= 0:
            break
    return "\n".join(parts)


_HAN: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_KANA: Final = re.compile("[\u3041-\u309f\u30a1-\u30ff]")
_HANGUL: Final = re.compile("[\uac00-\ud7af]")
_CYRILLIC: Final = re.compile("[\u0400-\u04ff]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_WORD: Final = re.compile(r"[^\W\d_]{1,20}")

WRITTEN_FULLER: Final = 3
"""One character of Chinese, Japanese or Korean says as much as about three Latin letters."""


def _by_script(sample: str) -> str | None:
    letters = len(_LETTER.findall(sample))
    if not letters:
        return None
    han, kana, hangul, cyrillic = (
        len(script.findall(sample)) for script in (_HAN, _KANA, _HANGUL, _CYRILLIC)
    )
    shares = {
        "zh": han * WRITTEN_FULLER,
        "ko": hangul * WRITTEN_FULLER,
        "ru": cyrillic,
        "ja": (han + kana) * WRITTEN_FULLER if kana * 10 > han else 0,
    }
    best = max(shares, key=lambda code: shares[code])
    return best if shares[best] >= letters * LEAST_SHARE else None


def _by_words(sample: str) -> str:
    counts = dict.fromkeys(_LITTLE_WORDS, 0)
    for word in _WORD.findall(sample.lower()):
        for code in _SPOKEN_BY.get(word, ()):
            counts[code] += 1
    best = max(counts, key=lambda code: counts[code])
    return best if counts[best] >= LEAST_WORDS else "en"


_LITTLE_WORDS: Final = {
    "en": "the and is to of that it for with this are was not you please should have from can we a"
    " as do in no on at be by or if so an me",
    "de": "der die das und ist nicht ein eine zu den mit für auf wir bitte soll wird dass aber es"
    " noch dem wie ich du im am auch sind hat",
    "fr": "le la les et est des une un pas pour dans que vous nous avec il ce sur du au ne qui plus"
    " cette sont être",
    "es": "el la los las y es de que en un una no por con para se lo del al como pero está este"
    " esta hay más",
    "pt": "o a os as e é de que em um uma não por com para se do da no na como mas está isso este"
    " você são mais",
}
"""The commonest words of each, in this order of preference."""

_SPOKEN_BY: Final = {
    word: tuple(code for code, words in _LITTLE_WORDS.items() if word in words.split())
    for words in _LITTLE_WORDS.values()
    for word in words.split()
}


def _headings(*words: str) -> dict[Section, str]:
    return dict(zip(Section, words, strict=True))


PHRASES: Final = {
    "en": Phrases(
        headings=_headings(
            "Requests", "Decisions and corrections", "Files", "Commands", "Errors", "Findings",
            "Open work", "Last in progress",
        ),
        read="read", written="written", edited="edited", deleted="deleted", searched="searched",
        used="used", ok="ok", failed="failed", unanswered="no result yet", mended="mended",
        still_open="still open", working_on="Working on",
        said_last="Said last", done_last="Done last", attached="attached",
        nothing="Nothing was said.", more="… {} more",
    ),
    "de": Phrases(
        headings=_headings(
            "Anliegen", "Entscheidungen und Korrekturen", "Dateien", "Befehle", "Fehler",
            "Erkenntnisse", "Offene Arbeit", "Zuletzt in Arbeit",
        ),
        read="gelesen", written="geschrieben", edited="geändert", deleted="gelöscht",
        searched="durchsucht", used="benutzt", ok="ok", failed="fehlgeschlagen",
        unanswered="noch ohne Ergebnis", mended="behoben", still_open="noch offen",
        working_on="In Arbeit", said_last="Zuletzt gesagt",
        done_last="Zuletzt getan", attached="angehängt", nothing="Es wurde nichts gesagt.",
        more="… {} weitere",
    ),
    "fr": Phrases(
        headings=_headings(
            "Demandes", "Décisions et corrections", "Fichiers", "Commandes", "Erreurs", "Constats",
            "Travail restant", "Dernier travail en cours",
        ),
        read="lu", written="écrit", edited="modifié", deleted="supprimé", searched="parcouru",
        used="utilisé", ok="ok", failed="échec", unanswered="sans résultat", mended="réparé",
        still_open="toujours ouvert", working_on="En cours",
        said_last="Dit en dernier", done_last="Fait en dernier", attached="joint",
        nothing="Rien n'a été dit.", more="… {} de plus",
    ),
    "es": Phrases(
        headings=_headings(
            "Peticiones", "Decisiones y correcciones", "Archivos", "Comandos", "Errores",
            "Hallazgos", "Trabajo pendiente", "Último trabajo en curso",
        ),
        read="leído", written="escrito", edited="modificado", deleted="borrado",
        searched="buscado", used="usado", ok="ok", failed="falló", unanswered="sin resultado",
        mended="resuelto", still_open="sigue abierto", working_on="En curso",
        said_last="Dicho al final", done_last="Hecho al final", attached="adjunto",
        nothing="No se dijo nada.", more="… {} más",
    ),
    "pt": Phrases(
        headings=_headings(
            "Pedidos", "Decisões e correções", "Ficheiros", "Comandos", "Erros", "Descobertas",
            "Trabalho em aberto", "Último trabalho em curso",
        ),
        read="lido", written="escrito", edited="alterado", deleted="apagado",
        searched="pesquisado", used="usado", ok="ok", failed="falhou", unanswered="sem resultado",
        mended="resolvido", still_open="ainda em aberto", working_on="Em curso",
        said_last="Dito por último", done_last="Feito por último", attached="anexado",
        nothing="Nada foi dito.", more="… mais {}",
    ),
    "ru": Phrases(
        headings=_headings(
            "Запросы", "Решения и поправки", "Файлы", "Команды", "Ошибки", "Выводы",
            "Незавершённое", "Последнее в работе",
        ),
        read="прочитан", written="записан", edited="изменён", deleted="удалён",
        searched="просмотрен", used="использован", ok="ок", failed="ошибка",
        unanswered="ещё без результата", mended="исправлено", still_open="ещё не исправлено",
        working_on="В работе",
        said_last="Сказано последним", done_last="Сделано последним", attached="приложено",
        nothing="Ничего не было сказано.", more="… ещё {}",
    ),
    "zh": Phrases(
        headings=_headings(
            "用户请求", "决定与更正", "文件", "命令", "错误", "发现", "待办事项", "最近进行中",
        ),
        read="已读", written="已写", edited="已修改", deleted="已删除", searched="已搜索",
        used="已使用", ok="成功", failed="失败", unanswered="尚无结果", mended="已解决",
        still_open="尚未解决", working_on="正在处理", said_last="最后所说",
        done_last="最后所做", attached="附件", nothing="没有内容。", more="… 另有 {} 项",
    ),
    "ja": Phrases(
        headings=_headings(
            "依頼", "決定と訂正", "ファイル", "コマンド", "エラー", "わかったこと", "残りの作業",
            "直近の作業",
        ),
        read="読んだ", written="書いた", edited="変更", deleted="削除", searched="検索",
        used="使用", ok="成功", failed="失敗", unanswered="結果なし", mended="解決",
        still_open="未解決", working_on="作業中", said_last="最後の発言",
        done_last="最後の操作", attached="添付", nothing="発言はありません。", more="… 他 {} 件",
    ),
    "ko": Phrases(
        headings=_headings(
            "요청", "결정과 정정", "파일", "명령", "오류", "알게 된 것", "남은 작업",
            "마지막 진행 중인 작업",
        ),
        read="읽음", written="작성", edited="수정", deleted="삭제", searched="검색", used="사용",
        ok="성공", failed="실패", unanswered="아직 결과 없음", mended="해결", still_open="미해결",
        working_on="진행 중", said_last="마지막 발언", done_last="마지막 작업",
        attached="첨부", nothing="대화 내용이 없습니다.", more="… 외 {}건",
    ),
}  # fmt: skip
"""Code of two letters → the fixed words."""
