"""What users are told of every mistake, and datasets that are not there."""

import json
import os
from pathlib import Path

import pytest
from command_line import assert_mistake


class TestMistakes:
    def test_unknown_recipe(self, here, tmp_path):
        assert_mistake(here("train", "nope", cwd=tmp_path), 2, "nope", "banking77, btc, conll2000, digits")

    def test_ocr_without_data(self, here, tmp_path):
        run = here("train", "models/ocr", cwd=tmp_path, CRFQN_DATA=None)
        assert_mistake(run, 3, "crfqn data get ocr", "CRFQN_DATA", "crfqn train models/digits")

    def test_output_is_checked_first(self, here, tmp_path):
        run = here("train", "digits", "-o", "nowhere/m", cwd=tmp_path)
        assert_mistake(run, 2, "nowhere does not exist")
        assert "items" not in run.stderr

    @pytest.mark.parametrize("name", ["predict", "evaluate", "inspect"])
    def test_model_files(self, here, tmp_path, name):
        (tmp_path / "foreign").write_bytes(b"lCRFfoo" * 100)
        for path, words in (
            ("foreign", "not a CRFsuite model, or a damaged one"),
            ("missing", "no such file"),
            (".", "not a file"),
        ):
            run = here(name, path, cwd=tmp_path, input="")
            assert_mistake(run, 2, f"crfqn: {path}: ", words)

    @pytest.mark.parametrize(
        "arguments",
        [("train", "digits", "--l1", "much"), ("train", "digits", "--l1=-1"), ("fly",), ("data", "x")],
    )
    def test_usage(self, here, arguments):
        assert_mistake(here(*arguments), 2, "Error")

    @pytest.mark.parametrize("value", ["nan", "inf"])
    def test_numbers_that_are_none(self, here, tmp_path, value):
        assert_mistake(here("train", "digits", "--l1", value, cwd=tmp_path), 2, "l1")

    def test_input_files(self, here, trained, tmp_path):
        folder, _ = trained
        model = folder / "digits.crfqn"
        (tmp_path / "words").write_text("1\tdog\n")
        for command_name in ("predict", "evaluate"):
            assert_mistake(here(command_name, model, "gone", cwd=tmp_path), 2, "gone: there is no such file")
            assert_mistake(here(command_name, model, ".", cwd=tmp_path), 2, "a folder")
            assert_mistake(here(command_name, model, "words", cwd=tmp_path), 2, "'dog' is not a pixel")
        (tmp_path / "bare").write_text("\tp0_0:16\n")
        assert_mistake(here("evaluate", model, "bare", cwd=tmp_path), 2, "no labels")
        assert_mistake(here("inspect", model, "--label", "x", cwd=tmp_path), 2, "no label 'x'")

    def test_unknown_dataset(self, here):
        assert_mistake(here("data", "get", "x"), 2, "no dataset 'x'", "digits")
        assert_mistake(here("data", "verify", "x"), 2, "no dataset 'x'")

    def test_debug_shows_the_traceback(self, here, tmp_path):
        here("train", "nope", cwd=tmp_path, CRFQN_DEBUG="1", error="Traceback")


class TestData:
    def test_list(self, here, tmp_path):
        run = here("data", "list", cwd=tmp_path, CRFQN_DATA=None, code=0)
        assert "built in" in run.stdout
        assert "not here: crfqn data get ocr" in run.stdout
        rows = json.loads(here("data", "list", "--json", cwd=tmp_path, CRFQN_DATA=None).stdout)
        assert {"digits", "ocr", "stdlib"} < {row["name"] for row in rows}

    def test_digits(self, here):
        assert "built in" in here("data", "get", "digits").stdout
        assert here("data", "verify", "digits").returncode == 0

    def test_missing_and_damaged(self, here, tmp_path):
        assert here("data", "verify", "ocr", cwd=tmp_path, CRFQN_DATA=None).returncode == 3
        (tmp_path / "letter.derived.tsv.gz").write_bytes(b"no")
        run = here("data", "verify", "ocr", cwd=tmp_path, CRFQN_DATA=str(tmp_path), code=3)
        assert "checksum" in run.stderr

    @pytest.mark.skipif("CRFQN_DATA" not in os.environ, reason="needs the OCR data in CRFQN_DATA")
    def test_real_data(self, here):
        assert here("data", "verify", "ocr").returncode == 0
        assert Path(here("data", "get", "ocr").stdout.strip()).is_file()


class TestUsersWithoutHome:
    """As in a container with the number of a user that has no name (`docker run --user 12345`)."""

    @pytest.fixture
    def homeless(self, here, monkeypatch):
        import pwd

        def unknown(number):
            raise KeyError(number)

        monkeypatch.setattr(pwd, "getpwuid", unknown)
        nothing = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "CRFQN_CACHE", "CRFQN_DATA"))
        return lambda *arguments, **options: here(*arguments, **nothing, **options)

    @pytest.mark.parametrize(
        "words",
        ["data get ocr", "data verify ocr", "train models/ocr", "cv ocr", "path ocr", "train ocr -o o.crfqn"],
    )
    def test_the_variables_are_named(self, homeless, words):
        assert_mistake(
            homeless(*words.split()), 3, "there is no home folder", "set CRFQN_CACHE", "CRFQN_DATA"
        )

    @pytest.mark.parametrize("words", ["data list", "data get digits", "recipe", "data verify digits"])
    def test_what_needs_no_folder_works(self, homeless, words):
        homeless(*words.split(), code=0)

    def test_quickstart_takes_the_digits(self, homeless):
        run = homeless("quickstart", "--threads", 1, code=0)
        assert "Training on handwritten digits, which are built in" in run.stderr
