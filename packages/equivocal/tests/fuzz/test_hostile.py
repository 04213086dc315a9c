"""Files made to do harm: each is refused with a sentence, before it takes memory or time.

Memory is bounded as for damaged files, and measured once more in a process of its own.
"""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from equivocal.multiverse.grid import load_grid, load_sweep
from equivocal.network import Run
from equivocal.network.storage import load_network
from equivocal.paper.preparation import prepare
from equivocal.paper.settings import load_study, parse_changes
from equivocal.store import check_netcdf, parse_toml, read_json, read_text, read_toml
from equivocal.store.store import Store
from equivocal.world import World, read_example
from equivocal.world.items import load_stimuli
from lastlayer import Posterior
from lastlayer.errors import UserError
from lastlayer.files import resolve_inside
from tests.fuzz.conftest import unseal
from tests.fuzz.test_loaders import bounded
from tests.multiverse.test_multiverse import GRID, STIMULI, STUDY

HUGE = 1 << 41  # more than any machine has


def tensors(path: Path, header: dict[str, object], data: int) -> Path:
    """A safetensors file with this header, and bytes of data, which take no room on disk."""
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + data)
    return path


def array(shape: tuple[int, ...], begin: int = 0, dtype: str = "F32") -> dict[str, object]:
    end = begin + int(np.prod(shape, dtype=object)) * 4
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b""), "shorter than its header"),
        (lambda path: path.write_bytes(b"\xff" * 8), "shorter than its header"),
        (lambda path: tensors(path, {"x": "y" * (33 << 20)}, 0), "its header has 33 MiB"),
        (lambda path: tensors(path, {"mean": array((1 << 40,))}, 8), "file not fully covered"),
        (
            lambda path: tensors(path, {"mean": array((HUGE // 4,))}, HUGE),
            "it has 2 TiB, and at most",
        ),
        (lambda path: tensors(path, {"mean": array((4,), dtype="I32")}, 16), "only F32 and F64"),
        (lambda path: tensors(path, {"mean": array((0, 1 << 40))}, 0), "is empty or has too many"),
        (os.mkfifo, "not an ordinary file"),
        (lambda path: path.mkdir(), "not an ordinary file"),
    ],
)
def test_tensors(make: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "posterior.safetensors"
    make(path)
    with bounded(), pytest.raises(UserError, match=message):
        Posterior.load(path)


def test_arrays_that_do_not_fit_each_other_are_not_read(tmp_path: Path) -> None:
    """They fit into the gigabyte that may be taken once, as a map of the file, but not twice."""
    size = 600 << 20
    header = {"__metadata__": {"format": "equivocal-posterior-1"}, "mean": array((size // 4,))}
    path = tensors(tmp_path / "posterior.safetensors", header, size)
    with bounded(), pytest.raises(UserError, match="is not a posterior saved by this version"):
        Posterior.load(path)


def test_arrays_that_no_network_has_are_not_read(tmp_path: Path, small_run: Run) -> None:
    small_run.save(tmp_path)
    unseal(tmp_path)
    path = tmp_path / "networks" / "00.safetensors"
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    size = 600 << 20
    path.unlink()
    tensors(path, {"__metadata__": header["__metadata__"], "extra": array((size // 4,))}, size)
    with bounded(), pytest.raises(UserError, match="does not fit: array"):
        load_network(tmp_path, 0)


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">i", len(data)) + data + b"\0" * (-len(data) % 4)


def netcdf(
    path: Path,
    *,
    dimensions: bytes = bytes(8),
    attributes: bytes = bytes(8),
    variables: bytes = bytes(8),
    data: int = 0,
) -> Path:
    path.write_bytes(b"CDF\x01" + bytes(4) + dimensions + attributes + variables)
    os.truncate(path, path.stat().st_size + data)
    return path


def dimension(*lengths: int) -> bytes:
    each = b"".join(text(f"d{i}") + struct.pack(">I", n) for i, n in enumerate(lengths))
    return struct.pack(">ii", 10, len(lengths)) + each


def attribute(name: str, value: str = "x") -> bytes:
    return struct.pack(">ii", 12, 1) + text(name) + struct.pack(">i", 2) + text(value)


def variable(number: int, *dimensions: int, count: int | None = None) -> bytes:
    """`number` variables that all begin at the first byte."""
    ids = struct.pack(f">{len(dimensions) + 1}i", len(dimensions), *dimensions)
    each = (text(f"v{i}") + ids + bytes(8) + struct.pack(">iii", 6, 0, 0) for i in range(number))
    return struct.pack(">iI", 11, number if count is None else count) + b"".join(each)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"dimensions": struct.pack(">iii", 10, 1, 2**31 - 1)}, "more than the file holds"),
        ({"dimensions": struct.pack(">iI", 10, 2**31 - 1)}, "more than the file"),
        ({"dimensions": dimension(2**31 - 1), "variables": variable(1, 0)}, "cannot reshape"),
        ({"dimensions": dimension(0)}, "empty or has no fixed length"),
        ({"dimensions": dimension(2**32 - 1)}, "empty or has no fixed length"),
        ({"dimensions": dimension(*[60_000] * 3), "variables": variable(1, 0, 1, 2)}, "reshape"),
        ({"dimensions": dimension(2), "variables": variable(1, 0, 0), "data": 64},
         "a dimension twice"),
        ({"dimensions": dimension(2), "variables": variable(1, 1)}, "out of range"),
        ({"dimensions": dimension(1 << 17), "variables": variable(2000, 0), "data": 1 << 20},
         "together"),
        ({"variables": variable(0, count=2**31 - 1)}, "more than the file holds"),
        ({"attributes": attribute("fp")}, "an attribute called 'fp'"),
        ({"attributes": attribute("_recs")}, "an attribute called '_recs'"),
        ({"attributes": attribute("_Encoding", "rot13")}, "instead of utf-8"),
    ],
)  # fmt: skip
def test_netcdf(parts: dict[str, bytes], message: str, tmp_path: Path) -> None:
    path = netcdf(tmp_path / "x.nc", **parts)
    with bounded(), pytest.raises(UserError, match=message):
        check_netcdf(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = " + b"{a=" * 100_000, "nested too deeply"),
        (b".".join([b"a"] * 100_000) + b" = 1", "more than 64 parts"),
        (b"[" + b".".join([b'"a b"'] * 100_000) + b"]", "more than 64 parts"),
        (b"a = " + b"1" * 5_000, "digits"),
        (b"a = '\0'", "NUL"),
        (b"a = '\xff'", "not UTF-8"),
        (b"#" * (1 << 20) + b"#", "at most 1 MiB"),
    ],
    ids=range(8),
)
def test_toml(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    with bounded(), pytest.raises(UserError, match=message):
        load_study(path)


def test_long_keys_are_looked_for_in_linear_time() -> None:
    """What the search for long keys must not choke on: long words, dots, unclosed quotes."""
    for line in ("a" * 10**5, "a." * 60, '"' * 10**5, "'a" * 10**5, "a. " * 60 + " " * 10**5):
        with bounded(), pytest.raises(ValueError, match="line"):
            parse_toml(f"{line}\n" * 2)


def test_json_and_text(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("[" * 100_000)
    with bounded(), pytest.raises(UserError, match="nested too deeply"):
        read_json(path)
    path.write_text("1" * 5_000)
    with bounded(), pytest.raises(UserError, match="is not JSON"):
        read_json(path)
    os.truncate(path, HUGE)
    with bounded(), pytest.raises(UserError, match="it has 2 TiB, and at most 64 MiB are read"):
        read_json(path)
    os.mkfifo(tmp_path / "pipe.toml")
    with bounded(), pytest.raises(UserError, match="not an ordinary file"):
        read_toml(tmp_path / "pipe.toml")
    with bounded(), pytest.raises(UserError, match="not an ordinary file"):
        read_text("/dev/zero")


def with_groups(number: int, inner: str) -> str:
    """The example world with groups of the group before, written as `inner` for its name."""
    lines = [f"g{i} = [{inner.format(f'g{i - 1}')}]" for i in range(1, number)]
    head, groups, tail = read_example().partition("[groups]\n")
    return "\n".join([head, groups, 'g0 = ["dog"]', *lines, tail])


def test_groups_of_groups_are_looked_through_once() -> None:
    """Forty groups that name the one before twice would stand for 2⁴⁰ words."""
    with bounded():
        world = World.from_toml(with_groups(40, '"{0}", "{0}"'))
    assert world.name == "garden"
    with bounded():
        World.from_toml(with_groups(5_000, '"{0}"').replace('"lawn"\n', '["lawn", "g4999"]\n'))


def many_roles(number: int) -> str:
    """One action with so many roles, each of them said or left unsaid: 2ⁿ sentences."""
    roles = [f"r{i}" for i in range(number)]
    words = "\n".join(f'w{i} = ["f{i}"]' for i in range(number))
    return f"""
name = "roles"
roles = {json.dumps(["action", *roles])}
[words.things]
{words}
[words.doings]
eat = ["eating"]
[actions.eat]
{chr(10).join(f'r{i} = "w{i}"' for i in range(number))}
[[constructions]]
name = "all"
order = {json.dumps(["action", *roles])}
mentioned = {{ {", ".join(f"{role} = 0.5" for role in roles)} }}
"""


def test_sentences_are_counted_before_they_are_listed() -> None:
    """2⁷⁰ of them overflow an integer of 64 bits, which made them none and all were listed."""
    with bounded():
        assert World.from_toml(many_roles(3)).is_exact
        assert not World.from_toml(many_roles(70)).is_exact
    with bounded(), pytest.raises(UserError, match="101 roles, and at most 100 are read"):
        World.from_toml(many_roles(100))


def test_words_times_features_are_counted() -> None:
    words = "\n".join(f'w{i} = ["f{i}"]' for i in range(47_000))
    with pytest.raises(UserError, match="words times features, and at most 2,147,483,648 are"):
        World.from_toml(read_example() + f"\n[words.more]\n{words}\n")


@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999", "1" * 5_000, "1/0"])
def test_probabilities_in_quotes_are_short(number: str) -> None:
    text = read_example() + f'\n[distributions.d]\ndog = "{number}"\n'
    with bounded(), pytest.raises(UserError, match="a probability is a number"):
        World.from_toml(text)


def test_many_problems_end(tmp_path: Path) -> None:
    """Unknown words, each of which is compared with all known ones; a hundred are named."""
    words = "\n".join(f'word{i} = ["feature{i}"]' for i in range(500))
    unknown = "\n".join(f'ward{i} = ["mice"]' for i in range(500))
    path = tmp_path / "world.toml"
    path.write_text(read_example().replace("[forms]", f"[words.more]\n{words}\n[forms]\n{unknown}"))
    with bounded(), pytest.raises(UserError) as raised:
        World.load(path)
    assert len(str(raised.value).splitlines()) == 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with its files, and a file of someone else's beside the folder."""
    here = tmp_path / "here"
    here.mkdir()
    content = {"garden.toml": read_example(), "garden.csv": STIMULI, "study.toml": STUDY}
    for name, text in {**content, "grid.toml": GRID}.items():
        (here / name).write_text(text)
        (tmp_path / f"other_{name}").write_text(text)
    for name in content:
        (here / f"link_{name}").symlink_to(tmp_path / f"other_{name}")
    return here


@pytest.mark.parametrize("where", ["../other_{}", "ABSOLUTE", "link_{}", "a/../../other_{}"])
def test_paths_in_files_stay_in_their_folder(where: str, folder: Path, tmp_path: Path) -> None:
    def leads_out(name: str) -> str:
        return str(tmp_path / f"other_{name}") if where == "ABSOLUTE" else where.format(name)

    for name in ("garden.csv", "garden.toml"):
        (folder / "bad.toml").write_text(STUDY.replace(name, leads_out(name)))
        with pytest.raises(UserError, match="leads out of its folder"):
            prepare(load_study(folder / "bad.toml"), tmp_path / "out")
    (folder / "bad.toml").write_text(GRID.replace("study.toml", leads_out("study.toml")))
    with pytest.raises(UserError, match="leads out of its folder"):
        load_grid(folder / "bad.toml")


@pytest.mark.parametrize("name", ["a/../garden.csv", "C:garden.csv", "\\\\host\\x", "a\\..\\x"])
def test_paths_are_refused_by_how_they_are_written(name: str, folder: Path) -> None:
    """On any system, and even where they would come back."""
    with pytest.raises(UserError, match="leads out of its folder; .*beside"):
        resolve_inside(folder, name, "stimuli.file")
    assert resolve_inside(folder, "garden.csv", "stimuli.file") == folder / "garden.csv"


def test_paths_of_the_command_line_may_lead_anywhere(folder: Path, tmp_path: Path) -> None:
    """And a study whose folder is a link is still a study."""
    stimuli, world = tmp_path / "other_garden.csv", tmp_path / "other_garden.toml"
    changes = parse_changes([f"stimuli.file={stimuli}", f"world={world}"])
    study = prepare(load_study(folder / "study.toml", changes), tmp_path / "out")
    assert study.world.source == str(world)
    with pytest.raises(UserError, match="leads out of its folder"):
        prepare(load_study(folder / "study.toml", changes, from_file=True), tmp_path / "out")
    (tmp_path / "link").symlink_to(folder)
    prepare(load_study(tmp_path / "link" / "study.toml"), tmp_path / "linked")


@pytest.mark.parametrize("name", ["x" * 3000, "../x", "/etc/hostname", "a\0b"])
def test_records_name_files_of_their_folder(name: str, tmp_path: Path) -> None:
    """A name that no file can have made an OSError of it."""
    (tmp_path / "records").mkdir()
    content = {"key": "abcd", "files": {name: "abcd"}}
    (tmp_path / "records" / "train.json").write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="train.json is damaged"):
        assert Store(tmp_path).find("train", "abcd") is None


def test_conditions_cannot_name_files_elsewhere(tmp_path: Path, garden: World) -> None:
    """They are part of the names of figures."""
    path = tmp_path / "stimuli.csv"
    path.write_text(STIMULI.replace("reversal", "a/../../../reversal"))
    with pytest.raises(UserError, match="has a slash"):
        load_stimuli(path, garden)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('name = "garden"', 'name = "garden"\nfolder = "x"', "unknown setting 'folder'"),
        ('name = "garden"', 'name = "garden"\ngiven = ["world"]', "unknown setting 'given'"),
        ('name = "garden"', 'name = "garden"\nquick = 3', "quick must be a table"),
        ('file = "garden.csv"', f'file = "{"x" * 3000}"', "cannot be looked up"),
        ('file = "garden.csv"', 'file = ""', "names no file"),
    ],
)
def test_settings(before: str, after: str, message: str, folder: Path, tmp_path: Path) -> None:
    (folder / "study.toml").write_text(STUDY.replace(before, after))
    with pytest.raises(UserError, match=message):
        prepare(load_study(folder / "study.toml"), tmp_path / "out")


def test_a_grid_is_counted_before_it_is_listed(folder: Path) -> None:
    """Two hundred values of five choices are 3 · 10¹¹ specifications."""
    values = ", ".join(str(value) for value in range(3, 203))
    factorial = f"num_steps = [{values}]\nnum_particles = [6, {values}]\nhidden = [20, {values}]\n"
    factorial += f"prior_variance = [1.0, {values}]\ndropout_rate = [0.3, 0.1]\n"
    (folder / "grid.toml").write_text(f'study = "study.toml"\n[factorial]\n{factorial}')
    with bounded(), pytest.raises(UserError, match="combinations, and at most 100,000"):
        load_grid(folder / "grid.toml")


def test_a_sweep_is_counted_too_and_names_no_files_elsewhere(folder: Path) -> None:
    values = ", ".join(map(str, range(400)))
    varied = f"[vary]\ntraining.seed = [{values}]\ninference.seed = [{values}]\n"
    (folder / "sweep.toml").write_text(f'study = "study.toml"\n{varied}')
    with bounded(), pytest.raises(UserError, match="160,000 combinations, and at most 100,000"):
        load_sweep(folder / "sweep.toml")
    varied = '[vary]\nstimuli.file = ["../other_garden.csv"]\n'
    (folder / "sweep.toml").write_text(f'study = "study.toml"\n{varied}')
    with pytest.raises(UserError, match="leads out of its folder"):
        assert load_sweep(folder / "sweep.toml").points[0].settings.stimuli_path
    (folder / "sweep.toml").write_text(f'study = "../other_study.toml"\n{varied}')
    with pytest.raises(UserError, match="study = '../other_study.toml' leads out"):
        load_sweep(folder / "sweep.toml")


CHILD = """
import resource, sys
from pathlib import Path
from equivocal.errors import UserError
from lastlayer import Posterior
from equivocal.paper import Study, load_study
from equivocal.world import World

folder = Path(sys.argv[1])
study = Study(load_study("paper"), folder)
loads = {
    "posterior.safetensors": Posterior.load,
    "large.safetensors": Posterior.load,
    "activations.nc": lambda path: study.read(path.name),
    "path.nc": lambda path: study.read(path.name),
    "world.toml": World.load,
}
World.load("paper")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (256 << 20),) * 2)
for name, load in loads.items():
    try:
        load(folder / name)
    except UserError as error:
        print("refused", error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_memory_of_a_process_that_reads_them_all(tmp_path: Path) -> None:
    """In a process that may take 256 MiB more than it has: less than 100 MiB are taken."""
    tensors(tmp_path / "posterior.safetensors", {"mean": array((HUGE // 4,))}, HUGE)
    tensors(tmp_path / "large.safetensors", {"mean": array((1 << 28,))}, 1 << 30)
    netcdf(tmp_path / "activations.nc", dimensions=struct.pack(">iii", 10, 1, 2**31 - 1))
    overlapping = {"dimensions": dimension(1 << 17), "variables": variable(2000, 0)}
    netcdf(tmp_path / "path.nc", **overlapping, data=1 << 20)
    bomb = with_groups(40, '"{0}", "{0}"').replace('name = "garden"', 'name = ""')
    (tmp_path / "world.toml").write_text(bomb)
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    *refused, grown = found.stdout.splitlines()
    assert sum(line.startswith("refused") for line in refused) == 5, found.stderr
    assert int(grown) < 100 << 10  # KiB
