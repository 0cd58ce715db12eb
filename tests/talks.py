# ruff: noqa: E501 - quoted outputs and sentences stay on their lines
"""Conversations as people really have them, as messages: for summarizers, facts and exports.

    talk = Talk().user("Why does it fail?").answer("Let me look.", run("pytest -q")).result("1 failed")

Calls are answered in order by `result`. Each `def` at the end is one whole conversation, written by
hand after the shape of real sessions: requests that change, tools that fail, long outputs, findings.
"""

import json
from typing import Any, Self

from dsh_compact.events import Block, Message, Text, ToolCall


class Talk:
    """A conversation in the making; `messages` is what came out."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._waiting: list[str] = []
        self._calls = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far."""
        return tuple(self._messages)

    def user(self, text: str, **fields: Any) -> Self:
        """The user speaks."""
        return self._add("user", (Text(text=text),), **{"source_kind": "user", **fields})

    def note(self, text: str) -> Self:
        """The harness says where the session runs, in the user's name."""
        return self._add("user", (Text(text=text),), source_kind="runtime-context")

    def checkpoint(self, summary: str) -> Self:
        """A folded span, framed as the harness frames it."""
        texts = (
            "What follows is background.\n\n<compacted-summary>",
            summary,
            "</compacted-summary>",
        )
        blocks = tuple(Text(text=text) for text in texts)
        return self._add("user", blocks, source_kind="compact-checkpoint", compaction_id="c-1")

    def answer(self, text: str = "", *calls: tuple[str, dict[str, Any]]) -> Self:
        """The model speaks, perhaps with calls, each a name and its arguments."""
        blocks: list[Block] = [Text(text=text)] if text else []
        for name, arguments in calls:
            self._calls += 1
            call_id = f"call_{self._calls}"
            self._waiting.append(call_id)
            written = json.dumps(arguments, ensure_ascii=False)
            blocks.append(ToolCall(id=call_id, name=name, arguments=written))
        return self._add("assistant", tuple(blocks), source_kind="model")

    def result(self, text: str, *, error: bool = False) -> Self:
        """The oldest call that waits is answered."""
        call_id = self._waiting.pop(0)
        return self._add(
            "tool", (Text(text=text),), source_kind="tool", call_id=call_id, is_error=error
        )

    def _add(self, role: str, content: tuple[Block, ...], **fields: Any) -> Self:
        made = Message(role=role, content=content, id=f"m{len(self._messages)}", **fields)
        self._messages.append(made)
        return self


def run(command: str) -> tuple[str, dict[str, Any]]:
    """A call of a shell."""
    return "bash", {"command": command}


def read(path: str) -> tuple[str, dict[str, Any]]:
    """A call that reads a file."""
    return "read", {"file_path": path}


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    """A call that edits a file."""
    return "edit", {"file_path": path, "old_string": old, "new_string": new}


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    """A call that writes a file."""
    return "write", {"file_path": path, "content": content}


def todo(*items: tuple[str, str]) -> tuple[str, dict[str, Any]]:
    """A call that writes the to-do list; each item is its words and its status."""
    return "todo_write", {
        "todos": [{"content": words, "status": status} for words, status in items]
    }


# Whole conversations ------------------------------------------------------------------------------

_TRACEBACK = """============================= test session starts ==============================
platform linux -- Python 3.12.3, pytest-8.3.2, pluggy-1.5.0
rootdir: /home/mira/invoices
configfile: pyproject.toml
collected 148 items

tests/test_totals.py ..........F..........                               [ 14%]
tests/test_rounding.py ..................................                [ 37%]
tests/test_import.py ...........................................         [ 66%]
tests/test_pdf.py ................................................       [100%]

=================================== FAILURES ===================================
______________________ test_discount_is_applied_before_tax _____________________

    def test_discount_is_applied_before_tax():
        invoice = Invoice(lines=[Line("desk", 2, Decimal("129.90"))], discount=Decimal("0.10"))
>       assert invoice.total() == Decimal("278.24")
E       AssertionError: assert Decimal('278.25') == Decimal('278.24')
E        +  where Decimal('278.25') = <bound method Invoice.total of Invoice(number='2024-0117')>()

tests/test_totals.py:64: AssertionError
=========================== short test summary info ============================
FAILED tests/test_totals.py::test_discount_is_applied_before_tax - AssertionError
======================== 1 failed, 147 passed in 2.31s =========================
"""

_TOTALS = """from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")
VAT_RATE = Decimal("0.19")


class Invoice:
    def __init__(self, lines, discount=Decimal(0), number="2024-0117"):
        self.lines = lines
        self.discount = discount
        self.number = number

    def net(self):
        return sum((line.amount for line in self.lines), Decimal(0))

    def total(self):
        net = self.net() * (1 - self.discount)
        return (net + net * VAT_RATE).quantize(CENT, rounding=ROUND_HALF_UP)
"""


def debugging() -> Talk:
    """A failing test, a wrong first try, a correction by the user, the cause found."""
    return (
        Talk()
        .note("Working directory: /home/mira/invoices. Date: 2024-06-11. Shell: bash.")
        .user(
            "test_discount_is_applied_before_tax in tests/test_totals.py fails since I merged the "
            "discount branch. Please find out why and fix it. Don't change the expected value in "
            "the test, accounting gave me that number."
        )
        .answer("I'll run the test first.", run("pytest -q tests/test_totals.py"))
        .result(_TRACEBACK + "\nexit code: 1")
        .answer("It is off by one cent. Let me look at the code.", read("src/invoices/totals.py"))
        .result(_TOTALS)
        .answer("", run("git log --oneline -5 -- src/invoices/totals.py"))
        .result(
            "9f3c2ab merge discount branch\n41d77e0 discount per invoice\n0be1f92 vat rate 19 %"
        )
        .answer(
            "The total is rounded once at the end. I'll switch the rounding to ROUND_HALF_EVEN.",
            edit("src/invoices/totals.py", "ROUND_HALF_UP", "ROUND_HALF_EVEN"),
        )
        .result("The file src/invoices/totals.py has been updated.")
        .answer("", run("pytest -q"))
        .result(
            "tests/test_rounding.py F\nE   AssertionError: assert Decimal('0.12') == Decimal('0.13')\n"
            "FAILED tests/test_rounding.py::test_half_a_cent_goes_up - AssertionError\n"
            "2 failed, 146 passed in 2.40s\nexit code: 1"
        )
        .user(
            "No, don't touch the rounding mode: the tax office demands half up. Tax is rounded per "
            "line, not on the sum, see section 14 of docs/accounting.md."
        )
        .answer(
            "I'll revert that and read the document.", run("git checkout src/invoices/totals.py")
        )
        .result("Updated 1 path from the index")
        .answer("", read("docs/accounting.md"))
        .result("# Accounting\n\n" + "Lorem ipsum about ledgers. " * 200 + "\n14. Tax is per line.")
        .answer(
            "The root cause is that Invoice.total() computes the tax on the discounted sum, while "
            "section 14 demands tax per line, each rounded to CENT. I decided to add "
            "Line.tax() and to sum the rounded values instead of changing VAT_RATE handling.",
            edit(
                "src/invoices/totals.py",
                "        net = self.net() * (1 - self.discount)",
                "        return sum(line.total(self.discount) for line in self.lines)",
            ),
            edit("src/invoices/line.py", "class Line:", "class Line:\n    def tax(self): ..."),
        )
        .result("The file src/invoices/totals.py has been updated.")
        .result("The file src/invoices/line.py has been updated.")
        .answer("", run("pytest -q"))
        .result("148 passed in 2.28s\nexit code: 0")
        .answer(
            "Fixed. All 148 tests pass. The tax is now computed by `Line.tax()` per line with "
            "ROUND_HALF_UP, and `Invoice.total()` only adds up. I have not yet updated "
            "CHANGELOG.md, and src/invoices/pdf.py still prints the old tax line."
        )
        .user("Good. Do the changelog now, and then make the PDF print the tax of each line.")
        .answer(
            "",
            todo(
                ("Add an entry to CHANGELOG.md", "in_progress"),
                ("Print the tax of each line in src/invoices/pdf.py", "pending"),
                ("Fix Invoice.total()", "completed"),
            ),
        )
        .result("ok")
        .answer("", read("CHANGELOG.md"))
        .result("# Changelog\n\n## 3.2.0\n- discount per invoice (#211)\n")
        .answer(
            "",
            edit(
                "CHANGELOG.md", "## 3.2.0", "## 3.2.1\n- tax is rounded per line (#218)\n\n## 3.2.0"
            ),
        )
        .result("The file CHANGELOG.md has been updated.")
        .answer("Now the PDF.", run("python -m invoices.pdf --sample /tmp/sample.pdf"))
    )


def refactoring() -> Talk:
    """A module is split in a TypeScript project; the compiler complains, options are discussed."""
    sources = "\n".join(f"src/session/{name}.ts" for name in ("index", "store", "token", "cookie"))
    return (
        Talk()
        .user(
            "Split src/session/index.ts (1,240 lines) into a store, a token and a cookie module. "
            "Public API of `@acme/session` must stay the same: createSession, refreshSession, "
            "SessionStore. Use named exports only. Run npm run build and npm test after every step."
        )
        .answer("Let me see how it is used.", run("rg -l \"from '@acme/session'\" packages"))
        .result(
            "packages/web/src/login.ts\npackages/web/src/logout.ts\npackages/api/src/middleware/auth.ts\n"
            "packages/api/src/routes/users.ts\nexit code: 0"
        )
        .answer("", run("wc -l src/session/*.ts"), read("src/session/index.ts"))
        .result("1240 src/session/index.ts\nexit code: 0")
        .result(
            "export class SessionStore {\n  private readonly ttlSeconds = 3600;\n"
            + "  // …\n" * 300
            + "}\nexport function createSession() {}\n"
        )
        .answer(
            "Two ways: (a) keep index.ts as a barrel that re-exports, or (b) change the `exports` map in "
            "package.json. Shall I keep the barrel?"
        )
        .user("yes, barrel, but no default exports and no `export *`")
        .answer(
            "I'll start with the token module.",
            write("src/session/token.ts", "export function signToken() {}\n" * 40),
            edit(
                "src/session/index.ts", "function signToken", "import { signToken } from './token'"
            ),
        )
        .result("File created: src/session/token.ts")
        .result("The file src/session/index.ts has been updated.")
        .answer("", run("npm run build"))
        .result(
            "> @acme/session@4.1.0 build\n> tsc -p tsconfig.build.json\n\n"
            "src/session/token.ts(12,9): error TS2304: Cannot find name 'TokenClaims'.\n"
            "src/session/index.ts(88,3): error TS2440: Import declaration conflicts with local "
            "declaration of 'signToken'.\n\nFound 2 errors.\nexit code: 2"
        )
        .answer(
            "The build fails because TokenClaims still lives in index.ts. I'll move it to "
            "src/session/types.ts, since both store and token need it.",
            write(
                "src/session/types.ts", "export interface TokenClaims { sub: string; exp: number }"
            ),
            edit("src/session/token.ts", "", "import type { TokenClaims } from './types'"),
        )
        .result("File created: src/session/types.ts")
        .result("The file src/session/token.ts has been updated.")
        .answer("", run("npm run build"))
        .result("> tsc -p tsconfig.build.json\nexit code: 0")
        .answer("", run("npm test"))
        .result("Test Suites: 14 passed, 14 total\nTests: 212 passed, 212 total\nexit code: 0")
        .answer("Token is done, 212 tests pass. Next: the store.")
        .user(
            "wait — keep `ttlSeconds` configurable, ops sets SESSION_TTL_SECONDS=900 in production. "
            "And don't use process.env outside of src/config.ts."
        )
        .answer(
            "Understood: the store takes `ttlSeconds` in its constructor and src/config.ts reads "
            "SESSION_TTL_SECONDS, instead of a constant of 3600.",
            write(
                "src/session/store.ts", "export class SessionStore { constructor(ttlSeconds) {} }"
            ),
            edit(
                "src/config.ts", "export const config = {", "export const config = {\n  ttlSeconds,"
            ),
        )
        .result("File created: src/session/store.ts")
        .result("The file src/config.ts has been updated.")
        .answer("", run("npm run build && npm test"))
        .result(
            "FAIL packages/api/test/auth.test.ts\n  ● refreshSession › extends the session\n"
            "    expect(received).toBe(expected)\n    Expected: 3600\n    Received: undefined\n"
            "Tests: 1 failed, 211 passed, 212 total\nexit code: 1"
        )
        .answer(
            "The issue is that createSession() builds a SessionStore without arguments. I'll pass "
            "config.ttlSeconds there.",
            edit(
                "src/session/index.ts", "new SessionStore()", "new SessionStore(config.ttlSeconds)"
            ),
        )
        .result("The file src/session/index.ts has been updated.")
        .answer("", run("npm run build && npm test"))
        .result("Tests: 212 passed, 212 total\nexit code: 0")
        .answer(
            "Store is done.\n\n- [x] src/session/token.ts\n- [x] src/session/store.ts\n"
            "- [ ] src/session/cookie.ts: parseCookie, serializeCookie, SameSite handling\n"
            "- [ ] shrink src/session/index.ts to the barrel\n- [ ] docs/session.md mentions old paths"
        )
        .user("go on")
        .answer("Now the cookie module.", run('rg -n "Cookie" src/session/index.ts'))
        .result(
            "301:function parseCookie(header: string) {\n355:function serializeCookie(\n" + sources
        )
    )


def analysis() -> Talk:
    """A data set is cleaned and explored; numbers matter, and one assumption turns out wrong."""
    head = "order_id,customer_id,placed_at,country,gross_eur,status\n" + "\n".join(
        f"{100_000 + i},{i % 977},2023-{1 + i % 12:02d}-{1 + i % 28:02d},DE,{i % 400}.90,paid"
        for i in range(120)
    )
    return (
        Talk()
        .user(
            "In data/orders_2023.csv I have last year's orders. I want the monthly revenue, the churn "
            "rate of customers, and a chart for the board. Amounts are gross, VAT must come off "
            "(19 % for DE, 20 % for AT and FR)."
        )
        .answer("First a look at the file.", run("head -120 data/orders_2023.csv"))
        .result(head + "\nexit code: 0")
        .answer(
            "",
            run(
                "python - <<'EOF'\nimport pandas as pd\ndf = pd.read_csv('data/orders_2023.csv')\nprint(df.shape, df.status.value_counts(), df.gross_eur.isna().sum())\nEOF"
            ),
        )
        .result(
            "(48213, 6)\npaid        45120\nrefunded     2301\ncancelled     792\n"
            "Name: status, dtype: int64 412\nexit code: 0"
        )
        .answer(
            "There are 48,213 orders: 45,120 paid, 2,301 refunded and 792 cancelled. 412 rows have no "
            "gross_eur. I'll use only paid orders and drop the 412 rows without an amount, because "
            "they are all cancelled."
        )
        .answer("", run("python scripts/check_missing.py"))
        .result(
            'Traceback (most recent call last):\n  File "scripts/check_missing.py", line 9, in <module>\n'
            "    by_status = missing.groupby('state').size()\nKeyError: 'state'\nexit code: 1"
        )
        .answer(
            "The column is called status.",
            edit("scripts/check_missing.py", "groupby('state')", "groupby('status')"),
        )
        .result("The file scripts/check_missing.py has been updated.")
        .answer("", run("python scripts/check_missing.py"))
        .result("paid 398\ncancelled 14\nexit code: 0")
        .answer(
            "I was wrong: 398 of the 412 rows without an amount are paid, only 14 are cancelled. "
            "Dropping them would lose revenue. Should I impute them from the invoices table?"
        )
        .user("yes, join data/invoices.parquet on order_id, amount_net is already without VAT")
        .answer(
            "",
            write("scripts/revenue.py", "import pandas as pd\n# joins invoices\n" * 30),
            run("python scripts/revenue.py --out out/revenue_2023.csv"),
        )
        .result("File created: scripts/revenue.py")
        .result(
            "month net_revenue_eur\n2023-01 212,480.11\n2023-02 198,305.42\n2023-03 241,990.00\n"
            "2023-11 402,118.73\n2023-12 388,654.90\ntotal 3,187,442.61\nexit code: 0"
        )
        .answer(
            "Net revenue 2023 is 3,187,442.61 EUR; the best month is November with 402,118.73 EUR. "
            "The imputed orders make up 0.9 % of it."
        )
        .user("Now churn. A customer counts as churned after 90 days without an order, not 60.")
        .answer(
            "",
            write("scripts/churn.py", "CHURN_DAYS = 90\n"),
            run("python scripts/churn.py"),
        )
        .result("File created: scripts/churn.py")
        .result("customers 9771\nchurned 2384\nchurn_rate 0.244\nexit code: 0")
        .answer(
            "With CHURN_DAYS = 90 the churn rate is 24.4 % (2,384 of 9,771 customers); with 60 days it "
            "would have been 33.0 %. The chart for the board is still missing: I plan "
            "out/board.png with monthly net revenue as bars and churn as a line."
        )
        .user("Bars in #1f4e79, the line in orange, and no title in the image.")
        .answer("", run("python scripts/chart.py --out out/board.png"))
        .result("ModuleNotFoundError: No module named 'matplotlib'\nexit code: 1")
        .answer("matplotlib is missing here.", run("uv pip install matplotlib==3.9.0"))
        .result("error: No virtual environment found; run `uv venv` first\nexit code: 2")
    )


def german() -> Talk:
    """A German administrator moves a service behind nginx."""
    return (
        Talk()
        .note("Arbeitsverzeichnis: /etc/nginx. Rechner: web03.")
        .user(
            "Unser Wiki läuft auf Port 8090 und soll unter https://wiki.beispiel.de erreichbar sein. "
            "Bitte richte nginx dafür ein. Die Zertifikate liegen schon in /etc/ssl/beispiel. "
            "TLS 1.0 und 1.1 dürfen auf keinen Fall angeboten werden."
        )
        .answer(
            "Ich sehe mir zuerst die vorhandene Konfiguration an.",
            run("ls /etc/nginx/sites-enabled"),
        )
        .result("default\nshop.conf\nexit code: 0")
        .answer("", read("/etc/nginx/sites-enabled/shop.conf"))
        .result(
            "server {\n  listen 443 ssl;\n  server_name shop.beispiel.de;\n" + "  # …\n" * 80 + "}"
        )
        .answer(
            "Ich lege eine eigene Datei an und verwende ich die Einstellungen des Shops als Vorlage.",
            write("/etc/nginx/sites-available/wiki.conf", "server {\n  listen 443 ssl;\n}\n"),
            run("nginx -t"),
        )
        .result("Datei geschrieben")
        .result(
            'nginx: [emerg] cannot load certificate "/etc/ssl/beispiel/wiki.pem": BIO_new_file() '
            "failed (SSL: error:80000002:system library::No such file or directory)\n"
            "nginx: configuration file /etc/nginx/nginx.conf test failed\nexit code: 1"
        )
        .answer("", run("ls -l /etc/ssl/beispiel"))
        .result("fullchain.pem\nprivkey.pem\nexit code: 0")
        .answer(
            "Die Ursache: Die Datei heißt fullchain.pem und nicht wiki.pem.",
            edit("/etc/nginx/sites-available/wiki.conf", "wiki.pem", "fullchain.pem"),
            run("nginx -t"),
        )
        .result("Datei geändert")
        .result("nginx: configuration file /etc/nginx/nginx.conf test is successful\nexit code: 0")
        .answer(
            "Die Konfiguration ist gültig. `ssl_protocols` steht auf TLSv1.2 und TLSv1.3. Soll ich HTTP "
            "auf Port 80 auf HTTPS umleiten?"
        )
        .user("ja, aber mit 308 statt 301")
        .answer(
            "Wir nehmen 308 statt 301, damit POST-Anfragen POST bleiben.",
            edit("/etc/nginx/sites-available/wiki.conf", "listen 443", "return 308 https://$host"),
            run("systemctl reload nginx"),
        )
        .result("Datei geändert")
        .result("exit code: 0")
        .answer("", run("curl -sI https://wiki.beispiel.de"))
        .result("HTTP/1.1 413 Request Entity Too Large\nexit code: 0")
        .user(
            "Hochladen von Anhängen geht nicht, da kommt 413. Anhänge dürfen bis 200 MB groß sein. "
            "Außerdem: die Logs sollen nach /var/log/nginx/wiki/ und nicht ins allgemeine Log."
        )
        .answer(
            "Das liegt an client_max_body_size, der Standard ist 1 MB.",
            edit("/etc/nginx/sites-available/wiki.conf", "server {", "client_max_body_size 200m;"),
            run("nginx -t && systemctl reload nginx"),
        )
        .result("Datei geändert")
        .result("nginx: configuration file /etc/nginx/nginx.conf test is successful\nexit code: 0")
        .answer(
            "Uploads bis 200 MB gehen jetzt. Noch offen: das eigene Log unter /var/log/nginx/wiki/ mit "
            "logrotate, und der Eintrag im Monitoring."
        )
    )


def chinese() -> Talk:
    """A Chinese team hunts a memory leak in a Go service."""
    return (
        Talk()
        .user(
            "订单服务 order-svc 的内存一直在涨，每天要重启一次。代码在 internal/cache/cache.go，"
            "请帮我找出原因并修复。不要修改对外的 gRPC 接口，配置项必须保持兼容。"
        )
        .answer("我先看一下代码。", read("internal/cache/cache.go"))
        .result(
            "package cache\n\ntype Cache struct {\n\titems map[string]*entry\n}\n" + "// …\n" * 120
        )
        .answer("", run("go test ./internal/cache/ -run TestEvict -count=1"))
        .result(
            "--- FAIL: TestEvict (0.03s)\n    cache_test.go:41: len = 10240, want 1024\nFAIL\n"
            "FAIL\torder-svc/internal/cache\t0.412s\nexit code: 1"
        )
        .answer(
            "原因找到了：evictLoop() 里的 time.Ticker 从未启动，过期的 entry 永远不会被删除，所以 map 一直增长。"
            "我决定改用惰性删除加后台清理，而不是引入第三方 LRU 库。",
            edit("internal/cache/cache.go", "func New(", "func New(ctx context.Context, "),
        )
        .result("文件已更新")
        .answer("", run("go build ./..."))
        .result(
            "# order-svc/cmd/server\ncmd/server/main.go:57:22: not enough arguments in call to cache.New\n"
            "\thave (int)\n\twant (context.Context, int)\nexit code: 1"
        )
        .user("不要改 New 的签名，别的服务也在用。加一个 NewWithContext 吧。")
        .answer(
            "好的，保留 New，新增 NewWithContext，New 内部调用它。",
            edit("internal/cache/cache.go", "func New(ctx", "func NewWithContext(ctx"),
            run("go build ./... && go test ./internal/cache/ -count=1"),
        )
        .result("文件已更新")
        .result("ok  \torder-svc/internal/cache\t0.398s\nexit code: 0")
        .answer("测试通过。清理间隔 cleanupInterval 默认 30s，最大条目数 maxEntries 为 1024。")
        .user(
            "间隔改成可配置，配置名 cache.cleanup_interval，默认值 60s。另外在 /metrics 里加上条目数。"
        )
        .answer(
            "",
            edit(
                "internal/config/config.go", "type Cache struct {", "CleanupInterval time.Duration"
            ),
            edit("internal/metrics/metrics.go", "func init() {", "cacheEntries"),
            run("go vet ./..."),
        )
        .result("文件已更新")
        .result("文件已更新")
        .result("exit code: 0")
        .answer(
            "已完成 cache.cleanup_interval（默认 60s）和指标 order_cache_entries。"
            "接下来还需要：用 pprof 压测 24 小时确认内存稳定，并更新 docs/config.md。"
        )
    )


_AREAS = (
    "billing", "search", "upload", "mailer", "audit", "quota", "export", "webhook", "session",
    "report", "import", "notify", "cache", "policy", "ledger", "stats",
)  # fmt: skip
_ASKS = (
    "Customers see a wrong total in the {area} view when they have more than {number} entries. Please reproduce it with a test first.",
    "The {area} job takes {number} seconds since last week, it used to be a tenth. Find out why.",
    "Add a flag --{area}-limit with a default of {number}, documented in docs/{area}.md. Existing calls must keep working.",
    "Ticket {number}: {area} crashes when the file is empty. No new dependencies, please.",
)
_ERRORS = (
    "ValueError: invalid literal for int() with base 10: '{number}x'",
    "AssertionError: assert {number} == {other}",
    "TypeError: load_{area}() missing 1 required positional argument: 'limit'",
    "IndexError: list index out of range",
)


def long_session(turns: int = 64) -> Talk:
    """Many tasks in one session, each with long outputs, a failure and its cure."""
    talk = Talk().note("Working directory: /srv/shop. Branch: main.")
    for turn in range(turns):
        area, number = (
            _AREAS[turn % len(_AREAS)] + ("" if turn < 16 else str(turn // 16)),
            137 + 61 * turn,
        )
        words = {"area": area, "number": number, "other": number + 3}
        code = f"shop/{area}/views.py"
        error = _ERRORS[turn % len(_ERRORS)].format(**words)
        listing = "\n".join(f"{code}:{line}: value_{line} = row[{line}]" for line in range(220))
        talk.user(_ASKS[(turn * 5) % len(_ASKS)].format(**words))
        talk.answer("Let me look for it.", run(f"rg -n value shop/{area}")).result(listing)
        talk.answer("", read(code)).result(f"class {area.title()}View:\n" + "    pass  # …\n" * 400)
        talk.answer(
            "I'll write a test for it.", write(f"tests/test_{area}.py", "def test_it(): ...\n" * 20)
        ).result("File created")
        talk.answer("", run(f"pytest -q tests/test_{area}.py")).result(
            "collected 12 items\n" + "." * 400 + f"\nE   {error}\n1 failed, 11 passed\nexit code: 1"
        )
        talk.answer(
            f"The cause is that load_{area}() cuts the rows at {number - 1} before it sums them.",
            edit(code, "rows[:limit]", "rows"),
        ).result("The file has been updated.")
        talk.answer("", run(f"pytest -q tests/test_{area}.py")).result(
            "12 passed in 0.31s\nexit code: 0"
        )
        talk.answer(
            f"Done: {code} sums all rows now, and tests/test_{area}.py covers {number} entries. "
            f"`load_{area}` is {turn % 7 + 2}.{turn % 10} times faster than before."
        )
        if turn % 8 == 5:
            talk.user(f"Don't use a global for {area}, pass it as an argument instead.")
            talk.answer(
                f"I decided to pass `{area}_limit` through the constructor.",
                edit(code, "LIMIT", "limit"),
            ).result("The file has been updated.")
    return talk


ALL = {
    "debugging": debugging,
    "refactoring": refactoring,
    "analysis": analysis,
    "german": german,
    "chinese": chinese,
}
"""Every whole conversation by its name."""
