# SPDX-License-Identifier: Apache-2.0
"""The command line: the networks that need no file."""

from __future__ import annotations

import json

from tvm_ios import zoo
from tvm_ios.cli.main import main


def test_the_networks_and_their_inputs(capsys) -> None:
    assert main(["zoo"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    listed = {words[0]: words[1].strip() for words in lines if words[0:1] and "zoo:" in words[0]}
    assert list(listed) == [f"zoo:{name}" for name in zoo.names()]
    assert listed["zoo:squeezenet"] == "data float32[1, 3, 224, 224]"
    assert listed["zoo:bert_base"] == "tokens int32[1, 128], segments int32[1, 128]"


def test_as_json(capsys) -> None:
    assert main(["zoo", "--json"]) == 0
    networks = json.loads(capsys.readouterr().out)["networks"]
    assert len(networks) == len(zoo.names())
    assert networks["zoo:bert_base"]["segments"] == {"shape": [1, 128], "dtype": "int32"}
