"""An input is written again with other labels: where they are right nothing changes, elsewhere they change alone."""

from __future__ import annotations

import gzip

import pytest

from crfqn.data.file_parts import read_parts
from crfqn.data.files import Part
from crfqn.errors import InputError
from crfqn.readers import FORMATS, Documents, read
from crfqn.readers.registry import rewritten

CONLLU = (
    "# newdoc\n# sent_id = 1\n1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "1\tvamos\tir\tVERB\tv p\tMood=Imp|Number=Plur\t0\troot\t0:root\tNER=O|Gloss=go\n"
    "2\tnos\tnosotros\tPRON\t_\tCase=Acc\t1\tobj\t1:obj\t_\n2.1\tya\t_\tADV\t_\t_\t_\t_\t_\t_\n\n\n"
    "# sent_id = 2\n1\tal\ta\tADP\t_\t_\t0\troot\t_\tNER=B-X\n\n# the end\n"
)
FILES = {
    "conll": ("conll", "-DOCSTART- -X-\tO\n\nthe \t DT\tA\ndog\tNN   B \n\n\n \nit  PRP\tA\n\n"),
    "conll, no ASCII": ("conll", "ein\u00a0Wort\tDT  A\nHündin NN\tB\n\n"),
    "conll2003": ("conll2003", "-DOCSTART- -X- -X- O\n\nEU NNP B-NP A\nis  VB\tO O\n"),
    "conllu": ("conllu", CONLLU),
    "crfsuite": ("crfsuite", "@weight:2.50\nA\tw=a\\:b:1.0\t\tx:-2e0\nB\\:1\tx\n\n\nA\n\n@weight:1\nB\tx\n"),
    "svmlight": ("svmlight", "# head\n1,3 2:0.50 7:-1e-3 # why\n\n +2  1:1.0\n"),
    "jsonl": ("jsonl", '{ "id":7,"tokens" : ["\\u00e4", "b"],"labels":["A", "B"] , "x": {"labels": []}}\n\n'
              '{"tokens":["c"], "labels": ["A"]}\n'),
    "jsonl, documents": ("jsonl", '{"label":"A", "text": "\\u00e4"}\n{"text": "b","label":["x", "y"]}\n'),
    "csv": ("csv", 'w,"label",pos\nthe,A,"D""T"\n"d,og","B",NN\n\n\n"i\nt",A,PRP\n'),
    "csv, named items": ("csv", "sentence,w,tag\n1,the,A\n,dog,B\n2,it,A\n"),
    "csv, documents": ("csv", 'label,text\n"A","good\n\nfilm"\nB,bad\n'),
    "tsv": ("tsv", 'w\tlabel\nthe\tA\nd,og\t"B"\n\nit\tA'),
    "text": ("text", "A\tgood\tfilm\nB\tbad \n\nA\t\n"),
}  # fmt: skip
ODD = {  # labels that are written otherwise than we would
    "blanks": ("text", "  A \tgood\n"),
    "escapes": ("jsonl", '{"tokens": ["a"], "labels": [ "\\u0041" ]}\n'),
    "numbers": ("jsonl", '{"text": "a", "label": 1.0e0, "x": 3}\n'),
    "order": ("svmlight", "3,1 2:1\n"),
    "quotes": ("csv", 'w,label\na,"A"\n'),
}
ENDS = {
    "as it is": lambda text: text.encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "no last line's end": lambda text: text.rstrip("\n").encode(),
    "byte-order mark": lambda text: text.encode("utf-8-sig"),
    "gzip": lambda text: gzip.compress(text.encode()),
}


def again(path, format, predict, **options):
    """The file written again, with the labels that `predict` makes of its data."""

    def used(part):
        data = read(part, format, **options)
        return data, predict(data)

    parts = read_parts(path, FORMATS[format].cut(**options), used)
    return "".join(rewritten(part, *(found or (None, ()))) for part, found in parts).encode()


def right(data):
    """The labels of the file; several ones of a document in the order of the alphabet."""
    if not isinstance(data, Documents):
        return data.labels
    return [sorted(label.split(",")) if "," in label else label for label in data.labels]


def wrong(data):
    if isinstance(data, Documents):
        return [f"no-{i}" for i in range(data.n_items)]
    return [[f"no-{t}" for t in range(len(labels))] for labels in data.labels]


def labels_of(item):
    return [item] if isinstance(item, str) else item


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("name", FILES | ODD)
def test_right_labels_change_nothing(tmp_path, name, ends):
    format, text = (FILES | ODD)[name]
    path = tmp_path / "file"
    path.write_bytes(ENDS[ends](text))
    expected = gzip.decompress(path.read_bytes()) if ends == "gzip" else path.read_bytes()
    assert again(path, format, right) == expected


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("name", FILES)
def test_other_labels_change_alone(tmp_path, name, ends):
    format, text = FILES[name]
    path, changed = tmp_path / "file", tmp_path / "changed"
    path.write_bytes(ENDS[ends](text))
    data = read(path, format)
    changed.write_bytes(again(path, format, wrong))
    assert list(map(labels_of, read(changed, format).labels)) == list(map(labels_of, wrong(data)))
    assert again(changed, format, lambda _: right(data)) == again(path, format, right)


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("conll", "the\tDT\nit  PRP\n", "the\tDT\tA\nit  PRP  B\n"),
        ("conll", "the\tDT\t\nit\tPRP\t\r\n", "the\tDT\tA\nit\tPRP\tB\r\n"),
        ("conllu", "1\ta\t_\t_\tX" + "\t_" * 5 + "\n", "1\ta\t_\tA\tX" + "\t_" * 5 + "\n"),
        ("crfsuite", "\tx\n\ty:2\n", "A\tx\nB\ty:2\n"),
        ("jsonl", '{"tokens": ["a", "b"] }\n', '{"tokens": ["a", "b"], "labels": ["A", "B"] }\n'),
        ("jsonl", '{"text": "a", "label": null}', '{"text": "a", "label": "A"}'),
        ("csv", "w,pos\nthe,DT\n\n it ,\r\n", "w,pos,label\nthe,DT,A\n\n it ,,A\r\n"),
        ("csv", "\ntext\na\n\"b,\"\n", '\ntext,label\na,A\n"b,",B\n'),
        ("tsv", "w\tlabel\nthe\t\n", "w\tlabel\nthe\tA\n"),
        ("text", "good film\n\tbad\n", "A\tgood film\nB\tbad\n"),
    ],
)  # fmt: skip
def test_labels_that_were_not_there(tmp_path, format, text, expected):
    def letters(data):
        return (
            ["A", "B"][: data.n_items]
            if isinstance(data, Documents)
            else [["A", "B"][: len(labels)] for labels in data.labels]
        )

    options = {}
    if format == "conll":
        options = {"columns": ["w", "pos"]}
    path = tmp_path / "file"
    path.write_bytes(text.encode())
    assert again(path, format, letters, **options).decode() == expected


def test_a_key_of_a_field_of_conllu(tmp_path):
    path = tmp_path / "file"
    path.write_text(CONLLU, encoding="utf-8")
    changed = again(path, "conllu", wrong, label="misc:NER").decode()
    assert changed == CONLLU.replace("NER=O|", "NER=no-0|").replace("1:obj\t_", "1:obj\tNER=no-1").replace(
        "NER=B-X", "NER=no-0"
    )


@pytest.mark.parametrize(
    ("format", "text", "label"),
    [
        ("conll", "a X L\n", "a b"),
        ("crfsuite", "L\tx\n", "a\tb"),
        ("svmlight", "1 1:1\n", "a:b"),
        ("conllu", CONLLU, "\t"),
    ],
)
def test_labels_that_a_format_cannot_hold(format, text, label):
    part = Part("file", text)
    data = read(part, format)
    predicted = [label if isinstance(data, Documents) else [label] * len(own) for own in data.labels]
    with pytest.raises(InputError, match=r"^file, line \d: "):
        rewritten(part, data, predicted)
