"""Noise between meaning and hearing: Bayes' rule by hand, a slow listener, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivocal.world import ImpossibleSentenceError, World, WorldError
from equivocal.world import world as world_module

# A dog chases a cat with probability 0.8, the cat the dog with 0.2; a quarter is told in passives.
TINY = """
name = "tiny"
roles = ["agent", "action", "patient"]

[words.animals]
dog = ["dog"]
cat = ["cat"]

[words.verbs]
chase = ["chase"]

[markers]
was = ["was"]
by = ["by"]

[actions.chase]
agent = { dog = 0.8, cat = 0.2 }
patient = [{ when = { agent = "dog" }, then = "cat" }, { then = "dog" }]

[[constructions]]
name = "active"
order = ["agent", "action", "patient"]

[[constructions]]
name = "passive"
probability = 0.25
order = ["patient", "action", "agent"]
markers = { action = "was", agent = "by" }
form = "participle"
"""
EXCHANGE = '[noise.slip]\nexchange = ["agent", "patient"]\nprobability = 0.1\n'


RARE_GAP = '[{ when = { agent = "dog" }, then = "cat" }]'


def tiny(noise: str) -> World:
    return World.from_toml(TINY + noise)


def agent_of(world: World, text: str) -> float:
    """Return the belief that the dog acts."""
    return float(world.true_beliefs(text, "agent")["dog"])


def test_lost_function_words_by_hand() -> None:
    """A passive that loses both function words sounds like an active with the roles reversed."""
    world = tiny('[noise.lost]\ndelete = ["was", "by"]\nprobability = 0.3\n')
    # "cat chases dog": the cat in an active 0.75 · 0.2, the dog in a passive 0.25 · 0.8 · 0.3
    assert agent_of(world, "cat chases dog") == pytest.approx(0.06 / (0.06 + 0.15))
    assert agent_of(world, "cat was chased by dog") == 1
    one = tiny('[noise.lost]\ndelete = "by"\nprobability = 0.3\n')
    assert agent_of(one, "cat was chased dog") == 1
    with pytest.raises(ImpossibleSentenceError, match="without noise nothing in world 'tiny' begi"):
        one.literal_beliefs("cat was chased dog", "agent")
    with pytest.raises(ImpossibleSentenceError, match="nothing that happens in world 'tiny'"):
        one.true_beliefs("cat chased by dog", "agent")


def listen_slowly(world: World, noise: dict[str, float]) -> dict[tuple[tuple, tuple], float]:
    """Return P(sentence, event), computed from lists of words without the code under test.

    `noise` has the probability of each edit: exchange, was, by, both (lost), more (was and by added
    to actives).
    """
    found: dict[tuple[tuple, tuple], float] = {}

    def hear(words: list, event: tuple, chance: float) -> None:
        key = (tuple(map(tuple, words)), event)
        found[key] = found.get(key, 0) + chance

    for agent, patient, share in (("dog", "cat", 0.8), ("cat", "dog", 0.2)):
        event = (agent, patient)
        active = [[agent], ["chase"], [patient]]
        passive = [[patient], ["was", "chase"], ["by", agent]]
        for said, chance, is_passive in ((active, 0.75, False), (passive, 0.25, True)):
            swap = {agent: patient, patient: agent}
            edits = {"exchange": [[swap.get(w, w) for w in part] for part in said]}
            if is_passive:
                for name, lost in (("was", {"was"}), ("by", {"by"}), ("both", {"was", "by"})):
                    edits[name] = [[w for w in part if w not in lost] for part in said]
            else:
                edits["more"] = [said[0], ["was", *said[1]], ["by", *said[2]]]
            hear(said, event, share * chance * (1 - sum(noise[name] for name in edits)))
            for name, heard in edits.items():
                hear(heard, event, share * chance * noise[name])
    return found


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.001, 0.2), min_size=5, max_size=5))
def test_beliefs_agree_with_a_slow_listener(chances: list[float]) -> None:
    names = ("exchange", "was", "by", "both", "more")
    noise = dict(zip(names, chances, strict=True))
    keys = {
        "exchange": 'exchange = ["agent", "patient"]',
        "was": 'delete = "was"',
        "by": 'delete = "by"',
        "both": 'delete = ["was", "by"]',
        "more": 'insert_markers = { action = "was", patient = "by" }\nconstructions = "active"',
    }
    lines = (f"[noise.{n}]\n{keys[n]}\nprobability = {noise[n]!r}\n" for n in names)
    world = tiny("\n".join(lines))
    slow = listen_slowly(world, noise)
    assert sum(slow.values()) == pytest.approx(1)
    assert sum(s.probability for s in world.sentences) == pytest.approx(1)
    for sentence in world.sentences:
        tokens = world.parse(sentence.text).tokens
        same = sum(chance for (words, _), chance in slow.items() if words == tokens)
        assert sentence.probability == pytest.approx(same)
        for size in range(1, len(tokens) + 1):
            heard = {
                who: sum(
                    chance
                    for (words, event), chance in slow.items()
                    if event[0] == who and words[:size] == tokens[:size]
                )
                for who in ("dog", "cat")
            }
            beliefs = world.true_beliefs(world.parse(sentence.text).first(size), "agent")
            assert beliefs["dog"] == pytest.approx(heard["dog"] / sum(heard.values()))
            assert beliefs["dog"] + beliefs["cat"] == pytest.approx(1)


@pytest.fixture(scope="module")
def both_ways() -> World:
    return World.load("both_ways")


def test_without_noise_beliefs_are_literal(both_ways: World) -> None:
    silent = World.load("both_ways", exchange=0, deletion=0, insertion=0, case=0)
    assert not silent.has_noise
    assert silent.literal_derivations is silent.all_derivations
    for sentence in silent.sentences:
        for role in silent.roles:
            literal = both_ways.literal_beliefs(sentence.text, role)
            assert (literal == silent.true_beliefs(sentence.text, role)).all()


def test_a_sample_has_what_was_meant(both_ways: World) -> None:
    """Counts of (sentence, event) are binomial; 5 standard errors and 1 fail once in 10⁵ tables."""
    size = 100_000
    drawn = both_ways.sample(size, seed=1).distinct()
    rows = drawn.to_dataframe()
    assert set(rows["noise"]) == {"", *both_ways.file.noise}
    keys = ["sentence", "agent", "action", "patient"]
    exact = both_ways.all_derivations.to_dataframe().groupby(keys)["probability"].sum()
    seen = rows.groupby(keys)["count"].sum().reindex(exact.index, fill_value=0)
    assert seen.sum() == size  # nothing was drawn that is not enumerated
    error = np.sqrt(size * exact * (1 - exact))
    assert (np.abs(seen - size * exact) < 5 * error + 1).all()


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ("probability = 0.1", "one of the keys exchange, delete, insert_markers, got none"),
        (
            "exchange = ['agent', 'theme']\nprobability = 0.1",
            "has two roles, not the action, or two markers; roles",
        ),
        ("exchange = 'agent'\nprobability = 0.1", "at least 2 items"),
        ("delete = 'bye'\nprobability = 0.1", "unknown marker 'bye': did you mean 'by'"),
        ("delete = 'by'\nconstructions = 'pasive'\nprobability = 0.1", "did you mean 'passive'"),
        ("delete = 'by'\nconstructions = 'active'\nprobability = 0.1", "struck by it"),
        ("insert_markers = { agent = 'with' }\nprobability = 0.1", "unknown marker 'with'"),
    ],
)
def test_bad_noise_is_refused_in_a_sentence(noise: str, message: str) -> None:
    with pytest.raises(WorldError, match=message) as caught:
        tiny(f"[noise.it]\n{noise}\n[distributions.pets]\ncat = 0.5\ndog = 0.5\n")
    assert len(str(caught.value).splitlines()) == 1
    assert "noise" in str(caught.value)


def test_noise_that_sums_above_one_is_refused() -> None:
    more = '[noise.lost]\ndelete = "by"\nprobability = 0.95\n'
    message = r"construction 'passive' sums to 1.05, and at most 1"
    with pytest.raises(WorldError, match=message):
        tiny(EXCHANGE + more)
    # not on the same sentences: that is fine
    tiny(EXCHANGE + 'constructions = "active"\n' + more)


def test_a_rare_uncovered_event_of_a_large_world_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once in 10,000 events: rarely among the few drawn on loading, always among 100,000."""
    text = TINY.replace('[{ when = { agent = "dog" }, then = "cat" }, { then = "dog" }]', RARE_GAP)
    monkeypatch.setattr(world_module, "MAX_ENUMERATED", 1)
    world = World.from_toml(text.replace("0.8, cat = 0.2", "0.9999, cat = 0.0001"))
    with (
        pytest.warns(UserWarning, match="too many to enumerate"),
        pytest.raises(WorldError, match="no rule for 'patient' fits agent = 'cat'"),
    ):
        _ = world.sentences


def test_roles_that_are_not_said_are_not_affected_by_noise() -> None:
    """Half of the actives leave the patient out, and then nothing is exchanged."""
    first = 'name = "active"\n'
    text = TINY.replace(first, f"{first}mentioned = {{ patient = 0.5 }}\n")
    world = World.from_toml(text + EXCHANGE)
    whole = {sentence.text: sentence.probability for sentence in world.sentences}
    assert whole["dog chases"] == pytest.approx(0.75 * 0.8 * 0.5)
    assert whole["dog chases cat"] == pytest.approx(0.75 * 0.5 * (0.8 * 0.9 + 0.2 * 0.1))
    # "cat chases" as a beginning: the cat with a patient as meant or without, the dog exchanged
    dog, cat = 0.8 * 0.5 * 0.1, 0.2 * (0.5 * 0.9 + 0.5)
    assert agent_of(world, "cat chases") == pytest.approx(dog / (dog + cat))
    drawn = world.sample(2_000, seed=2).to_dataframe()
    short = drawn[drawn["sentence"].isin(["dog chases", "cat chases"])]
    assert len(short) > 500
    assert set(short["noise"]) == {""}


def test_a_silenced_world_is_the_one_without_noise() -> None:
    noisy = World.load("both_ways", rare=0.2)
    silent = noisy.remove_noise()
    wanted = World.load("both_ways", rare=0.2, exchange=0, deletion=0, insertion=0, case=0)
    assert not silent.has_noise
    assert silent.sentences == wanted.sentences
    assert silent.parameters == noisy.parameters
    assert silent.remove_noise() is silent
