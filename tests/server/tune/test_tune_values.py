"""`pgassay tune DSN --log FILE --values FILE`: values of parameters, from logs of all formats and by hand."""

from pathlib import Path

import pytest

import whole_tool
from server_helpers import best_build
from source_servers import SourceServer, source_server, tuned

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
LOGGING = {
    "logging_collector": "on", "log_destination": "stderr,csvlog,jsonlog", "log_directory": "logs",
    "log_filename": "server.log", "log_min_duration_statement": "0",
    "log_line_prefix": "%m [%p] %q%u@%d ", "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on",
}  # fmt: skip
# Seven comes often, the others once each; the text has several lines.
BY_CUSTOMER = "SELECT count(*),\n\tmax(status)\nFROM orders\nWHERE customer = %s AND status = %s"
TRUNCATED = "SELECT date_trunc(%s, placed), count(*) FROM orders WHERE id < %s GROUP BY 1"
UNTOLD = "SELECT extract(epoch FROM placed), count(*) FROM orders WHERE length(status) = 4 GROUP BY 1"


def run_load(server: SourceServer) -> None:
    server.fill()
    with server.connection() as session:
        session.execute("SELECT pg_stat_statements_reset()")
        for number in range(20):
            session.execute(BY_CUSTOMER, (7 if number % 2 else number * 100, "open"), prepare=True)
        session.execute(TRUNCATED, ("day", 60000))
        session.execute(UNTOLD.encode(), prepare=False)


def test_a_log_of_each_format_tells_frequent_and_rare_values(tmp_path: Path) -> None:
    with source_server(best_build(), LOGGING) as server:
        run_load(server)
        for name in ("server.log", "server.csv", "server.json"):
            out = tmp_path / name
            log = server.data / "logs" / name
            answer = tuned(server.dsn(), out, "--log", log, "--statements", "3", max_time="40s")
            texts = [each["sql"] for each in answer["symptom"]["statements"]]
            assert any("customer = '7'" in text for text in texts), texts
            assert len([text for text in texts if "max(status)" in text]) >= 2, texts
            # The unit is told by the log alone.
            assert any("date_trunc('day'" in text for text in texts), texts


def test_values_of_a_user_go_first_and_what_is_untold_is_left_out(tmp_path: Path) -> None:
    with source_server(best_build()) as server:
        run_load(server)
        values = tmp_path / "values.sql"
        given = BY_CUSTOMER.replace("%s", "$1", 1).replace("%s", "$2")
        values.write_text(f"-- parameters: 42, 'open'\n-- parameters: 4242, 'closed'\n{given};\n")
        answer = tuned(
            server.dsn(), tmp_path / "out", "--values", values, "--statements", "3", max_time="40s"
        )
        texts = [each["sql"] for each in answer["symptom"]["statements"]]
        assert [text for text in texts if "'42'" in text] and [text for text in texts if "'4242'" in text]
        left_out = {each["reason"] for each in answer["symptom"]["source"]["left_out"]}
        assert any("date_trunc" in reason for reason in left_out), left_out
        assert "date_trunc" in (tmp_path / "out" / "left-out.sql").read_text()
        values.write_text(f"-- parameters: 42\n{given};\n")
        said = whole_tool.run("tune", server.dsn(), "--values", values, "--quiet")
        assert "has 2 parameters, and a set of their values 1" in whole_tool.assert_one_sentence(said, 2)
        said = whole_tool.run("tune", server.dsn(), "--log", values, "--quiet")
        assert "is not a log of a server" in whole_tool.assert_one_sentence(said, 2)
