"""Which language a conversation is in."""

import pytest

from dsh_compact.summarizers.extract.language import PHRASES, language_of
from dsh_compact.summarizers.extract.outline import Section


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("en", "Please add a test for the parser and run it."),
        ("en", "fix src/a.py"),
        ("en", ""),
        ("en", "12 + 30 = 42"),
        ("de", "Bitte füge einen Test für den Parser hinzu, aber ändere die API nicht."),
        ("fr", "Ajoute un test pour le parseur et ne change pas l'API."),
        ("es", "Añade una prueba para el analizador y no cambies la API."),
        ("pt", "Adiciona um teste para o analisador e não mudes a API."),
        ("ru", "Добавь тест для src/parser.py и запусти pytest -q tests/test_parser.py"),
        ("zh", "请给 src/parser.py 加一个测试，然后运行 pytest -q tests/test_parser.py"),
        ("ja", "src/parser.py のテストを追加して、pytest -q を実行してください"),
        ("ko", "src/parser.py 에 테스트를 추가하고 pytest -q 를 실행해 주세요"),
    ],
)
def test_languages(code: str, text: str) -> None:
    """A script of its own decides even among paths and commands; little words decide the rest."""
    assert code == language_of([text])


def test_the_beginning_decides() -> None:
    """Only a page is read: what was said first, not what was pasted last."""
    assert "de" == language_of(["Das ist nicht die Datei, die ich meine. " * 600, "是" * 100_000])


def test_every_language_names_every_section() -> None:
    """No heading is missing, empty, or used for two sections of a language."""
    for code, phrases in PHRASES.items():
        assert [*Section] == [*phrases.headings], code
        assert len(Section) == len({*filter(None, phrases.headings.values())}), code
