"""The API over real HTTP: its answers, its refusals, and what it must not reveal."""

import csv
import http.client
import io
import json
import signal
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from urllib.error import HTTPError

import pytest

from equivocal.asking import Comprehender, Source
from equivocal.errors import UserError
from equivocal.web.app import Writer, limit_time
from equivocal.web.serving import bind_socket
from tests.web.conftest import running

REVERSAL = "during dinner, the pizza eats the woman"


def get(server: str, path: str, **query: object) -> tuple[int, Any, Any]:
    """Status, body (JSON or text) and headers."""
    address = server + path + ("?" + urllib.parse.urlencode(query) if query else "")
    try:
        with urllib.request.urlopen(address, timeout=10) as response:
            status, body, headers = response.status, response.read().decode(), response.headers
    except HTTPError as error:
        status, body, headers = error.code, error.read().decode(), error.headers
    is_json = headers.get_content_type() == "application/json"
    return status, json.loads(body) if is_json else body, headers


def test_comprehend_is_what_ask_prints(server: str, mind: Comprehender) -> None:
    status, body, _ = get(server, "/api/comprehend", sentence=REVERSAL)
    assert status == 200
    assert body == json.loads(json.dumps(mind.answer(REVERSAL).to_dict()))
    assert [word["word"] for word in body["words"]] == ["during dinner", "pizza", "eats", "woman"]


@pytest.mark.parametrize("step", [17, "converged"])
def test_json_written_word_by_word_is_that_of_to_dict(mind: Comprehender, step: Any) -> None:
    """Sentences share prefixes, whose reading may change as the sentence goes on."""
    writer = Writer(most=20)  # so that some are forgotten
    texts = [sentence.text for sentence in mind.world.sentences[::150]]
    texts += ["the pizza", "pizza", "at dinner pizza eats woman", REVERSAL, f"{REVERSAL} man"]
    for text in (*texts, *reversed(texts)):
        answer = mind.answer(text, step=step)
        for top in (4, 2):
            assert json.loads(writer.write(answer, top)) == json.loads(
                json.dumps(answer.to_dict(top))
            )
    assert len(writer._kept) == 20


def test_query_parameters_are_used(server: str, mind: Comprehender) -> None:
    query = {"sentence": REVERSAL, "prior_variance": "5", "step": "17", "top": "2"}
    _, body, _ = get(server, "/api/comprehend", **query)
    expected = mind.answer(REVERSAL, prior_variance=5.0, step=17).to_dict(2)
    assert body == json.loads(json.dumps(expected))


def test_table_holds_every_filler(server: str, mind: Comprehender) -> None:
    status, body, headers = get(server, "/api/comprehend.csv", sentence=REVERSAL)
    assert status == 200
    assert headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(body)))
    assert len(rows) == 4 * mind.vocabulary.candidates.sum()
    assert {"position", "word", "role", "filler", "mle", "bayes", "low", "high", "truth"} <= set(
        rows[0]
    )


def test_world_says_what_can_be_chosen(server: str, mind: Comprehender) -> None:
    _, body, _ = get(server, "/api/world")
    assert body["roles"] == ["agent", "action", "patient", "location", "situation"]
    assert body["prior_variances"] == [0.01, 1.0, 5.0]
    assert [entry["step"] for entry in body["steps"]] == [0, 1, 3, 8, 17]
    assert body["steps"][0]["times"] == {"0.01": 0.0, "1": 0.0, "5": 0.0}
    assert body["steps"][-1]["times"]["1"] > 0
    assert "eats" in body["classes"]["actions"]
    for words in body["classes"].values():
        for word in words:
            mind.world.parse(word)  # what is clicked together can be asked
    for example in body["examples"]:
        assert get(server, "/api/comprehend", sentence=example["sentence"])[0] == 200


def test_several_worlds_are_served_at_once(mind: Comprehender) -> None:
    other = Comprehender(Source.choose(world="slips"))
    bound = bind_socket("127.0.0.1", 0)
    with running(bound, "127.0.0.1", mind, other):
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        _, body, _ = get(address, "/api/worlds")
        assert [world["name"] for world in body["worlds"]] == ["paper", "slips"]
        assert body["worlds"][0] == get(address, "/api/world")[1]
        for name, asked in (("paper", mind), ("slips", other)):
            _, body, _ = get(address, "/api/comprehend", sentence=REVERSAL, world=name)
            assert body == json.loads(json.dumps(asked.answer(REVERSAL).to_dict()))
        status, body, _ = get(address, "/api/comprehend", sentence=REVERSAL, world="slip")
        assert (status, body["error"]) == (400, "unknown world 'slip': did you mean 'slips'?")


def test_health(server: str) -> None:
    status, body, _ = get(server, "/api/health")
    assert (status, body["status"], body["world"]) == (200, "ok", "paper")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({}, "'sentence' is missing"),
        ({"sentence": ""}, "sentence = '' is wrong"),
        ({"sentence": "woman " * 60}, "at most 300 characters"),
        ({"sentence": "the piza"}, "unknown word 'piza': did you mean 'pizza'?"),
        ({"sentence": "woman\x00"}, "control character, U+0000"),
        ({"sentence": "woman", "step": "16"}, "step 16 is not available"),
        ({"sentence": "woman", "step": "soon"}, "step = 'soon' is wrong"),
        ({"sentence": "woman", "step": "9" * 50}, "step"),
        ({"sentence": "woman", "prior_variance": "2"}, "choose from 0.01, 1, 5"),
        ({"sentence": "woman", "prior_variance": "nan"}, "prior_variance = 'nan' is wrong"),
        ({"sentence": "woman", "prior": "1"}, "unknown parameter 'prior'"),
    ],
)
def test_bad_questions_get_one_sentence(server: str, query: dict[str, str], message: str) -> None:
    for path in ("/api/comprehend", "/api/comprehend.csv"):
        status, body, _ = get(server, path, **query)
        assert status == 400
        assert list(body) == ["error"]
        assert message in body["error"]
        assert "Traceback" not in body["error"]


def test_a_parameter_given_twice_is_refused(server: str) -> None:
    status, body, _ = get(server, "/api/comprehend?sentence=woman&sentence=man")
    assert (status, body["error"]) == (400, "sentence is given more than once; give it once.")


def test_unknown_places_and_methods(server: str) -> None:
    assert get(server, "/api/nothing")[0] == 404
    assert get(server, "/static/../app.py")[0] == 404
    assert get(server, "/static/%2e%2e/app.py")[0] == 404
    with closing(http.client.HTTPConnection(server.removeprefix("http://"), timeout=10)) as asked:
        asked.request("POST", "/api/comprehend?sentence=woman", body="x" * 1000)
        response = asked.getresponse()
        assert response.status == 405
        assert "error" in json.loads(response.read())


def test_every_answer_has_the_security_headers(server: str) -> None:
    for path in ("/", "/api/health", "/api/comprehend", "/static/style.css", "/nowhere"):
        headers = get(server, path)[2]
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "server" not in headers


def test_browsers_cache_no_answers(server: str) -> None:
    assert get(server, "/api/comprehend.csv", sentence="woman")[2]["Cache-Control"] == "no-store"
    assert get(server, "/static/style.css")[2]["Cache-Control"] == "no-cache"


def test_headers_are_bounded(server: str) -> None:
    with closing(http.client.HTTPConnection(server.removeprefix("http://"), timeout=10)) as asked:
        asked.request("GET", "/api/health", headers={"X-Long": "x" * 200_000})
        assert asked.getresponse().status == 400


def test_number_of_fillers_is_bounded(server: str) -> None:
    for top in ("0", "21", "many"):
        status, body, _ = get(server, "/api/comprehend", sentence="woman", top=top)
        assert (status, f"top = '{top}' is wrong" in body["error"]) == (400, True)


def test_table_takes_no_number_of_fillers(server: str) -> None:
    status, body, _ = get(server, "/api/comprehend.csv", sentence="woman", top=3)
    assert (status, "unknown parameter 'top'" in body["error"]) == (400, True)


def test_many_at_once_are_all_answered(server: str, mind: Comprehender) -> None:
    sentences = [f"the woman eats the {food}" for food in ("egg", "soup", "pizza", "salad")] * 5
    with ThreadPoolExecutor(20) as pool:
        bodies = pool.map(lambda text: get(server, "/api/comprehend", sentence=text)[1], sentences)
    for sentence, body in zip(sentences, bodies, strict=True):
        assert body["summary"] == mind.answer(sentence).summary


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_every_loopback_address_answers_to_its_own_name(mind: Comprehender, host: str) -> None:
    bound = bind_socket(host, 0)
    number = bound.getsockname()[1]
    with pytest.raises(UserError, match=f"cannot serve on {host} port {number}"):
        bind_socket(host, number)  # taken, though nobody serves there yet
    with running(bound, host, mind):
        address = f"http://[{host}]:{number}" if ":" in host else f"http://{host}:{number}"
        assert get(address, "/api/health")[0] == 200


def test_an_answer_has_a_time_limit() -> None:
    def forever() -> None:
        with limit_time(0.05):
            while True:
                pass

    with pytest.raises(TimeoutError):
        forever()
    with limit_time(60):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_an_empty_host_is_refused() -> None:
    with pytest.raises(UserError, match="--host is empty"):
        bind_socket("", 0)


def test_other_names_are_not_answered(server: str) -> None:
    """A page elsewhere cannot read a loopback server through a name of its own (DNS rebinding)."""
    with closing(http.client.HTTPConnection(server.removeprefix("http://"), timeout=10)) as asked:
        asked.request("GET", "/api/health", headers={"Host": "evil.example"})
        response = asked.getresponse()
        assert response.status == 400
        assert "does not answer to that name" in json.loads(response.read())["error"]


def test_repeated_questions_are_answered_from_the_cache(server: str, mind: Comprehender) -> None:
    """A comprehender that lost a layer still answers earlier questions, and no others."""
    first = get(server, "/api/comprehend", sentence="the boy plays the chess")
    kept = mind.network.weights.pop("query.hidden_bias")
    try:
        again = get(server, "/api/comprehend", sentence="the boy plays the chess")
        new, _, _ = get(server, "/api/comprehend", sentence="the boy plays the monopoly")
    finally:
        mind.network.weights["query.hidden_bias"] = kept
    assert again[:2] == first[:2]
    assert again[2]["X-Frame-Options"] == "DENY"
    assert new == 500


def test_internal_errors_show_no_traceback(server: str, mind: Comprehender) -> None:
    """Where a layer of the network is lost, the client learns nothing of paths or code."""
    kept = mind.network.weights.pop("query.hidden_bias")
    try:
        status, body, headers = get(server, "/api/comprehend", sentence="letter eats letter")
    finally:
        mind.network.weights["query.hidden_bias"] = kept
    assert status == 500
    assert body == {"error": "something went wrong here; the server's log says what."}
    assert headers["X-Frame-Options"] == "DENY"
    assert get(server, "/api/comprehend", sentence="the woman")[0] == 200
