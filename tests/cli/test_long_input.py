"""Messages about long lines and words: what was expected and where, without all of what came."""

from crfqn.readers.registry import FORMATS


def test_long_input_is_not_repeated(here, tmp_path):
    """A file of one long line, read in each format by each command that reads data; and long words of a command."""
    text = "x y=z:w:{[,;" * 5_000
    (tmp_path / "long").write_text(f"{text}\n{text}\t{text}\n")
    (tmp_path / "t.conll").write_text("Ann\tP\nsees\tO\n\n" * 3)
    (tmp_path / "t.txt").write_text("a\tgood day\nb\tbad night\n" * 3)
    for name in ("t.conll", "t.txt"):
        here("train", "--data", name, "-o", f"{name}.crfqn", "-q", code=0)
    word = "x" * 50_000
    commands = [
        ("train", "--data", "t.conll", option, word)
        for option in ("--l1", "--scheme", "--label", f"--{word}")
    ]
    commands += [
        ("train", word),
        ("predict", word),
        ("inspect", "t.conll.crfqn", "--label", word),
        ("explain", "x", word),
    ]
    for format in FORMATS:
        commands += [
            ("train", "--data", "long", "--format", format, "--structure", kind) for kind in ("flat", "chain")
        ]
        commands += [
            (name, f"{model}.crfqn", "long", "--format", format)
            for name in ("evaluate", "suggest")
            for model in ("t.conll", "t.txt")
        ]
    for command in commands:
        run = here(*command)
        assert len(run.stderr) < 4_000, (command[:6], run.stderr[:3_000])
