"""Configuration from text: every printed form, and that records, source code and noise never become settings."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.reader import LogReader
from storage.reading.config import BLOCKS, ConfigScanner, blocks
from storage.reading.config.commands import settings as command_settings
from storage.reading.config.commands import words_of
from storage.reading.config.scanner import MAX_SETTINGS

LOGS = Path(os.environ.get("RUNVITALS_SHARED_LOGS", Path(__file__).resolve().parents[3] / "shared" / "logs"))


def config_of(text: str, pieces: int = 1) -> dict:
    scanner = ConfigScanner()
    lines = text.encode().splitlines(keepends=True)
    size = max(1, -(-len(lines) // pieces))
    for at in range(0, len(lines), size):
        scanner.feed(b"".join(lines[at : at + size]), at + 1)
    result = scanner.result()
    assert all(isinstance(value, str | int | float | bool) for value in result.values())
    json.dumps(result)
    return result


class TestForms:
    def test_argument_dumps(self):
        text = "Namespace(lr=0.0005, betas=(0.9, 0.95), name='a, b', bf16=True, resume=None)\n"
        assert config_of(text) == {"lr": 0.0005, "betas": "(0.9, 0.95)", "name": "a, b", "bf16": True, "resume": "None"}

    @pytest.mark.parametrize(
        "line",
        [
            '{"lr": 0.0003, "batch_size": 8, "model": {"name": "tiny"}}',
            "config: {'lr': 0.0003, 'batch_size': 8, 'model': {'name': 'tiny'}}",
            "lr=3e-4 batch_size=8 model/name=tiny",
            "Config: lr=3e-4, batch_size=8, model/name=tiny",
            "lr: 3e-4 | batch_size: 8 | model/name: tiny",
        ],
    )
    def test_all_settings_on_one_line(self, line):
        assert config_of(line + "\nstep 1 loss 2.5\n") == {"lr": 0.0003, "batch_size": 8, "model/name": "tiny"}

    @pytest.mark.parametrize(
        "line",
        ["step=1 lr=3e-4 batch_size=8", "lr=3e-4 batch_size=8 loss=2.5", "a=1 b=2 c=3", "lr=1 batch_size", "x=" + "a=" * 9000],
    )
    def test_one_line_that_holds_no_settings(self, line):
        assert config_of(line + "\n") == {}

    @pytest.mark.parametrize("pieces", [1, 3])
    def test_training_arguments_over_lines(self, pieces):
        text = "INFO - parse - parameters TrainingArguments(\n_n_gpu=1,\nfsdp=[],\nlearning_rate=5e-05,\nseed=7,\n)\ndone\n"
        assert config_of(text, pieces) == {"_n_gpu": 1, "fsdp": "[]", "learning_rate": 5e-05, "seed": 7}

    def test_dotted_arguments(self):
        text = (
            "------------------------ arguments ------------------------\n"
            "  adam_beta1 ...................................... 0.9\n"
            "  data_path ....................................... ['a/b']\n"
            "  zero_enabled ................. True\n"
            "    forward-compute ...............: (12.5, 13.5)\n"
        )
        assert config_of(text) == {"adam_beta1": 0.9, "data_path": "['a/b']", "zero_enabled": True}

    def test_a_dict_behind_dots_is_flattened(self):
        text = (
            "[2031-02-16 16:20:08,702] [INFO] [config.py:1000:print]   aio_config ......... {'block_size': 64, 'on': False}\n"
        )
        assert config_of(text) == {"aio_config/block_size": 64, "aio_config/on": False}

    @pytest.mark.parametrize("pieces", [1, 4])
    def test_json_over_lines(self, pieces):
        text = 'Model config:\n{\n  "n_layer": 4,\n  "n_embd": 128,\n  "optim": {\n    "lr": 0.1\n  }\n}\nready\n'
        assert config_of(text, pieces) == {"n_layer": 4, "n_embd": 128, "optim/lr": 0.1}

    def test_a_printed_dict_of_ray_with_a_warning_between(self):
        head = "\x1b[36m(main_task pid=77)\x1b[0m "
        text = (
            f"{head}{{'actor': {{'optim': {{'lr': 3e-07,\n{head}   'warmup': None}},\n"
            "\x1b[33m(raylet)\x1b[0m something else {\n"
            f"{head}/usr/lib/x.py:8: RuntimeWarning: careful\n"
            f"{head}   'grad_clip': 1.0}},\n{head} 'epochs': 5, 'name': 'x'}}\n"
        )
        wanted = {"actor/optim/lr": 3e-07, "actor/optim/warmup": "None", "actor/grad_clip": 1.0, "epochs": 5, "name": "x"}
        assert config_of(text) == wanted

    def test_a_dict_on_one_line(self):
        assert config_of("Building model with config: {'vocab_size': 32768, 'n_layer': 2}\n") == {
            "vocab_size": 32768,
            "n_layer": 2,
        }

    def test_sections(self):
        text = "AUTO: False\nTRAIN:\n  BATCH: 6\n  LR: 0.01\n  DATA:\n    ROOT: /data\nSEED: 304\n"
        wanted = {"AUTO": False, "TRAIN/BATCH": 6, "TRAIN/LR": 0.01, "TRAIN/DATA/ROOT": "/data", "SEED": 304}
        assert config_of(text) == wanted

    def test_plain_pairs_below_a_heading(self):
        assert config_of("Hyperparameters\nlr = 0.01\nhidden = 64\n") == {"lr": 0.01, "hidden": 64}
        assert config_of("train_tokens:524288 seq_len:1024 iterations:20000\nseed:1337\n") == {
            "train_tokens": 524288,
            "seq_len": 1024,
            "iterations": 20000,
            "seed": 1337,
        }


class TestCommands:
    def test_one_line(self):
        text = (
            "+ CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py --lr 5e-4 --batch_size=32 --bf16 model.dim=512\n"
        )
        assert config_of(text) == {
            "CUDA_VISIBLE_DEVICES": "0,1",
            "script": "train.py",
            "nproc_per_node": 2,
            "lr": 5e-4,
            "batch_size": 32,
            "bf16": True,
            "model.dim": 512,
        }

    @pytest.mark.parametrize("numbered", [False, True])
    def test_over_lines_and_as_a_numbered_listing(self, numbered):
        lines = [
            "python train_pretrain.py \\",
            "--epochs 1 \\",
            "--batch_size 2 \\",
            "--use_compile 0 \\",
            "--save_interval 99999",
        ]
        text = "".join(f"  {n}. {line}\n" if numbered else f"{line}\n" for n, line in enumerate(lines, 3))
        assert config_of(text) == {
            "script": "train_pretrain.py",
            "epochs": 1,
            "batch_size": 2,
            "use_compile": 0,
            "save_interval": 99999,
        }

    def test_a_printed_list_and_negative_values(self):
        text = "process 7 spawned with command: ['/usr/bin/python', '-u', 'sft.py', '--local_rank=0', '--w', '-1']\n"
        assert config_of(text) == {"script": "sft.py", "local_rank": 0, "w": -1}

    def test_broken_quotes_are_read_as_words(self):
        assert dict(command_settings(words_of("python a.py --name 'x --lr 3")))["lr"] == 3

    @pytest.mark.parametrize(
        "text",
        ["usage: train.py [-h] [--lr LR]", "train.py: error: unrecognized arguments: --foo 3", "# python train.py --lr 3"],
    )
    def test_help_and_comments_are_no_commands(self, text):
        assert config_of(text + "\n") == {}


class TestFacts:
    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("Model Params: 63.91M", {"Model Params": 63_910_000}),
            ("策略模型总参数量：30.025 M", {"策略模型总参数量": 30_025_000}),
            ("number of parameters: 10.65M", {"number of parameters": 10_650_000}),
            (
                " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 354871296",
                {"number of parameters": 354_871_296},
            ),
            (
                "trainable params: 4,194 || all params: 6,742,609 || trainable%: 0.06",
                {"trainable params": 4194, "all params": 6_742_609},
            ),
            ("[INFO|trainer.py:1721] 2031-01-01 00:00:00,000 >>   Num examples = 1,000", {"Num examples": 1000}),
            ("  Total optimization steps = 120", {"Total optimization steps": 120}),
            ("GPU: NVIDIA GeForce GTX 1660 SUPER | Peak FLOPS: inf", {"gpu": "NVIDIA GeForce GTX 1660 SUPER"}),
            ("Using 8 x NVIDIA A100-SXM4-80GB", {"gpu": "NVIDIA A100-SXM4-80GB"}),
            ("PyTorch version: 2.1.0+cu118", {"PyTorch version": "2.1.0+cu118"}),
            ("NCCL version 2.27.5+cuda12.9", {"NCCL version": "2.27.5+cuda12.9"}),
            ("torch==2.4.0", {"torch version": "2.4.0"}),
            ("Running Python 3.11.7", {"Python version": "3.11.7"}),
            ("using world size: 64, tensor-model-parallel size: 4", {"world size": 64, "tensor-model-parallel size": 4}),
            ("Setting random seed: 42", {"random seed": 42}),
        ],
    )
    def test_single_lines(self, text, wanted):
        assert config_of(text + "\n") == wanted

    def test_devices_are_counted_from_the_table_of_nvidia_smi(self):
        rows = "".join(f"|   {n}  NVIDIA H100 80GB HBM3          On  | 00000000:{n}9:00.0 Off |      0 |\n" for n in range(4))
        assert config_of(rows) == {"gpu": "NVIDIA H100 80GB HBM3", "gpu_count": 4}

    def test_secrets_are_hidden(self):
        text = "Namespace(hub_token='hf_abcdefghijk', wandb_api_key='0123456789abc', pad_token='<|endoftext|>')\n"
        assert config_of(text) == {"hub_token": "<hidden>", "wandb_api_key": "<hidden>", "pad_token": "<|endoftext|>"}


class TestNearMisses:
    @pytest.mark.parametrize(
        "text",
        [
            "Epoch:[1/2](100/9924), loss: 7.2804, logits_loss: 7.2804, aux_loss: 0.0, lr: 0.00049989, epoch_time: 35.0min\n"
            * 20,
            "step:20/2034 train_loss:2.7885 train_time:34636889ms step_avg:1703.57ms\n" * 20,
            "iter 10: loss 10.0507, time 263.86ms, mfu 9.31%\n" * 20,
            " iteration  20/ 1000 | consumed samples: 80 | learning rate: 3.75E-05 | lm loss: 1.41E+01 |\n" * 20,
            "{'loss': 1.5, 'learning_rate': 8e-06, 'epoch': 0.08}\n" * 20,
            '{"step": 50, "loss": 7.1, "lr": 4.9e-06}\n' * 20,
            "".join(f"step: {n}\nloss: {5 / n:.3f}\nlr: 0.001\ngrad_norm: 1.5\ntokens: 77\nspeed: 5\n\n" for n in range(1, 30)),
            "s:19557 trl:3.2816 lr:0.000000 norm:0.23\n" * 20,
            "   Train loss/train/total: 2.5\n   Train metrics/train/Perplexity: 9.5\n" * 20,
            "import os\n\nclass Args:\n    lr = 0.1\n    batch = 5\n\ndef f(x):\n    y = 3\n    return Config(a=1)\n",
            'Traceback (most recent call last):\n  File "a.py", line 5, in f\n    lr = opt.lr\n    x = 5\nValueError: bad\n',
            "WARNING: something\nINFO: other\nNote: this is text\n",
            "Here is the recipe: mix well\nThen: bake it\n",
        ],
    )
    def test_no_settings(self, text):
        assert config_of(text) == {}

    def test_what_keeps_changing_is_no_setting(self):
        text = "Config\n" + "".join(f"alpha: {n}\nbeta: 2\ngamma: x\n\nConfig\n" for n in range(6))
        assert config_of(text) == {"beta": 2, "gamma": "x"}

    def test_plain_blocks_far_from_the_beginning_are_not_believed(self):
        text = "nothing to see\n" * 5000 + "Config\na: 1\nb: 2\nc: 3\n"
        assert config_of(text) == {}
        scanner = ConfigScanner()
        scanner.feed(b"nothing\n" * 5000, 1)
        scanner.launched(5001)
        scanner.feed(b"Config\na: 1\nb: 2\nc: 3\n", 5001)
        assert scanner.result() == {"a": 1, "b": 2, "c": 3}


class TestBounds:
    def test_settings_and_values_are_bounded(self):
        text = "".join(f"Namespace(k{n}='{'v' * 5000}', j{n}=1)\n" for n in range(8000))
        result = config_of(text)
        assert len(result) == MAX_SETTINGS
        assert max(len(str(value)) for value in result.values()) <= 300

    @pytest.mark.parametrize(
        "text",
        [
            "{'a': " * 10_000,
            "config: " + "[" * 20_000,
            "Args(\n" + "x=(\n" * 50_000,
            "a=" * 50_000,
            "python x.py " + "--a " * 20_000,
        ],
    )
    def test_hostile_text_ends_quickly(self, text):
        began = time.process_time()
        config_of(text + "\n")
        assert time.process_time() - began < 20

    @settings(max_examples=80, deadline=None)
    @given(st.text(alphabet="{}[]()'\":=,.- \n\r\tabcN0159#\\/+python", max_size=300))
    def test_anything_is_read_without_an_exception(self, text):
        for config in (config_of(text), config_of("Config\n" + text, pieces=2)):
            assert json.loads(json.dumps(config)) == config

    def test_goes_on_from_its_state(self):
        first = ConfigScanner()
        first.feed(b"Namespace(lr=0.1)\n", 1)
        second = ConfigScanner()
        second.restore(json.loads(json.dumps(first.state())))
        second.feed(b"seed: 5\n", 2)
        assert second.result() == {"lr": 0.1, "seed": 5}


def test_four_blocks():
    config = {
        "lr": 0.1,
        "seq_len": 128,
        "NCCL version": "2.1",
        "log_interval": 10,
        "gpu": "H100",
        "DATASET/ROOT": "x",
        "seed": 1,
    }
    assert blocks(config) == {
        "environment": {"NCCL version": "2.1", "gpu": "H100"},
        "data": {"seq_len": 128, "DATASET/ROOT": "x"},
        "training": {"lr": 0.1, "seed": 1},
        "metrics": {"log_interval": 10},
    }
    assert tuple(blocks({})) == BLOCKS


@pytest.mark.logs
@pytest.mark.skipif(not LOGS.is_dir(), reason="the logs beside the repository are absent")
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("007-minimind-wandb-170430.log", {"Model Params": 63_910_000, "Trainable Params": 63_912_000}),
        ("015-meg_ds_3d_gpt2_perf_n16-ds-off.out", {"world size": 64, "adam_beta2": 0.999, "fp16": True}),
        ("030-parametergolf-baseline-train.log", {"seed": 1337, "model_params": 17_059_912, "world_size": 8}),
        ("053-result_WebQSP_ChatGLMv2_lora_epoch100.txt", {"learning_rate": 5e-05, "gradient_accumulation_steps": 4}),
        ("095-speedrun.log", {"total-batch-size": 8192, "n_layer": 4}),
        ("112-grpo.log", {"actor_rollout_ref/actor/optim/lr": 3e-07, "algorithm/adv_estimator": "grpo"}),
        ("190-knover-workerlog.0", {"Model/num_hidden_layers": 12}),
        ("221-icnet_resnet50_mhpv1.log", {"lr": 1e-05, "ngpus": 16, "batch_size": 16}),
        ("006-minimind-wandb-162444.log", {}),
        ("020-llmc-main.log", {}),
        ("167-nanogpt-wandb-output.log", {}),
    ],
)
def test_real_logs(name, wanted):
    scanner = ConfigScanner()
    scanner.feed((LOGS / name).read_bytes(), 1)
    result = scanner.result()
    assert {key: result.get(key) for key in wanted} == wanted
    assert wanted or not result


MANY = {f"key_{n}": n for n in range(10_000)}


@pytest.mark.parametrize(
    "header",
    [
        "Namespace(" + ", ".join(f"{key}={value}" for key, value in MANY.items()) + ")",
        "TrainingArguments(\n" + ",\n".join(f"{key}={value}" for key, value in MANY.items()) + ",\n)",
        json.dumps(MANY, indent=1),
        "config: " + json.dumps(MANY),
        f"Config: {MANY}",
    ],
    ids=["call", "open call", "JSON", "dict", "Python dict"],
)
def test_ten_thousand_settings_are_read(header: str) -> None:
    found = config_of(header + "\nstep: 1 loss: 2.0\n")
    assert {key: found[key] for key in MANY} == MANY


@pytest.mark.parametrize(
    "line", ["Args(" * 40_000, "{" * 300_000, "config: " + "{" * 200_000 + "}", "Namespace(" + "a=1, " * 50_000]
)
def test_a_long_line_that_is_no_dump_says_nothing(line: str) -> None:
    assert config_of(line + "\nstep: 1 loss: 2.0\n") == {}


@pytest.mark.parametrize("chunk", [300, 1 << 22])
def test_each_launch_of_a_file_has_the_settings_of_its_own_header(chunk):
    """That another launch begins is known from its first record, behind the header and far from the beginning of the log."""
    steps = "".join(
        f"step:{n}/400 train_loss:{4 - n / 400:.4f} train_time:{n * 50}ms step_avg:50.00ms\n" for n in range(1, 401)
    )
    code = "".join(f"    x{n} = self.lin{n}(x)  # a line of the script\n" for n in range(1500))
    code += "=" * 60 + "\n" + "".join(f"a table of words, line {n}\n" for n in range(60))
    launches = [(393216, 4096), (524288, 1024), (262144, 512)]
    headers = [
        f"train_batch_tokens:{batch} train_seq_len:{length} iterations:400\nseed:{length}\n" for batch, length in launches
    ]
    for count in (1, 2, 3):
        data, reader = "".join(code + header + steps for header in headers[:count]).encode(), LogReader("log")
        for at in range(0, len(data), chunk):
            reader.feed(data[at : at + chunk])
        reader.finish()
        found = reader.report()
        assert found.segments == count
        batch, length = launches[count - 1]
        assert [found.config[name] for name in ("train_batch_tokens", "train_seq_len", "seed")] == [batch, length, length]
