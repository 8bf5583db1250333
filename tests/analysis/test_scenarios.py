"""What a run is taken for, from its columns, its configuration and its first loss."""

import pytest

from analysis.scenarios import SCENARIOS, detect

CASES = [
    ({"loss", "lr"}, {}, 10.8, "pretraining"),
    ({"loss", "lr"}, {}, 2.1, "sft"),
    ({"loss", "reward", "kl"}, {}, 0.1, "rl"),
    ({"loss", "rewards/chosen"}, {}, 0.69, "preference"),
    ({"loss"}, {"lora_rank": 8}, 2.0, "lora"),
    ({"loss"}, {"lora_rank": 0, "lora_alpha": 16}, 7.0, "pretraining"),
    ({"loss"}, {"finetuning_type": "lora"}, 2.0, "lora"),
    ({"loss"}, {"trainable params": "4.2M", "all params": "7.0B"}, 2.0, "lora"),
    ({"loss", "miou"}, {}, 2.0, "other"),
    ({"loss"}, {"TRAIN/IMAGE_SIZE": "512", "MODEL/BACKBONE": "net"}, 9.0, "other"),
    ({"loss"}, {"stage": "sft"}, 9.0, "sft"),
    (set(), {}, None, "unknown"),
    (set(), {"actor_rollout_ref/rollout/n": 8}, None, "rl"),
]


@pytest.mark.parametrize(("columns", "config", "first", "kind"), CASES)
def test_a_log_is_taken_for_what_it_is(columns, config, first, kind):
    found, why = detect(columns, config, first)
    assert found == kind
    assert found in SCENARIOS
    assert why.render()


def test_there_are_the_five_stages_and_the_five_purposes_of_the_articles():
    groups = [one.group for one in SCENARIOS.values()]
    assert groups.count("stage") == groups.count("purpose") == 5
