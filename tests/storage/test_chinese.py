"""Names, units and punctuation of Chinese logs."""

from datetime import datetime
from typing import Any

import pytest

from storage.reader import LogReader


def read(lines: list[str]) -> list[dict[str, Any]]:
    reader = LogReader("log")
    batches = reader.feed("".join(f"{line}\n" for line in lines).encode()) + reader.finish()
    return [
        {key: value for key, value in row.items() if value is not None} for batch in batches for row in batch.rows.to_pylist()
    ]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            "轮次: 1/3 步数: {i}/900 损失: 2.5 学习率: 0.0003 梯度范数: 0.75",
            {"step": 3, "epoch": 1, "loss": 2.5, "grad_norm": 0.75},
        ),
        (
            "轮次：1/3，步数：{i}，损失：2.5，学习率：3e-4，剩余时间：1:02:03",
            {"step": 3, "lr": 3e-4, "remaining_seconds": 3723},
        ),
        (
            "步数 {i} | 损失 2.5 | 显存占用 12.5GB | 每步耗时 250毫秒",
            {"step": 3, "memory_bytes": 12.5 * 2**30, "step_time_seconds": 0.25},
        ),
        (
            "[2024-05-06 07:08:09] 第 1 轮 第 {i} 步 训练损失 2.5 准确率 0.5",
            {"step": 3, "epoch": 1, "loss": 2.5, "accuracy": 0.5},
        ),
        ("【训练】步={i} 损失=nan 验证损失=2.75", {"step": 3, "eval_loss": 2.75}),
        (
            "步数step：{i}，训练loss：2.5，验证loss：2.75，当前lr：0.0003",
            {"step": 3, "loss": 2.5, "eval_loss": 2.75, "lr": 3e-4},
        ),
        (
            "迭代 {i}，损失2.5，困惑度12.5，吞吐量 1,250",
            {"step": 3, "loss": 2.5, "perplexity": 12.5, "tokens_per_second": 1250},
        ),
    ],
)
def test_a_chinese_log_is_learnt(line: str, wanted: dict[str, float]) -> None:
    rows = read([line.format(i=i) for i in range(1, 40)])
    assert len(rows) == 39
    assert {key: rows[2].get(key) for key in wanted} == wanted
    assert "loss" in rows[2]


def test_the_same_value_in_both_scripts_is_equal() -> None:
    chinese = read([f"步数：{i}，损失：{3 - i / 40:.4f}" for i in range(1, 40)])
    assert chinese == read([f"step: {i}, loss: {3 - i / 40:.4f}" for i in range(1, 40)])


@pytest.mark.parametrize(
    "lines",
    [
        ["损失函数用来衡量模型的好坏。", "步骤 1：安装依赖", "步骤 2：运行训练", "学习率通常取 0.001。"],
        ["问：损失是什么？答：2 个数的差。"] * 5,
    ],
)
def test_prose_gives_no_row(lines: list[str]) -> None:
    assert read(lines) == []


@pytest.mark.parametrize(
    "stamp",
    [
        "{}年3月5日 10:22:{:02d}",
        "[{}年03月05日 10:22:{:02d}]",
        "{}年3月5日10时22分{}秒",
        "[INFO] {}年3月5日 10点22分{:02d}秒 -",
    ],
)
def test_a_chinese_date_is_the_wall_clock(stamp: str) -> None:
    rows = read([f"{stamp.format(2024, i)} 步数: {i} 损失: {3 - i / 40:.4f}" for i in range(1, 40)])
    assert [row["timestamp"] for row in rows] == [datetime(2024, 3, 5, 10, 22, i) for i in range(1, 40)]
    assert [row["step"] for row in rows] == list(range(1, 40))


def test_a_day_of_the_month_has_one_digit_or_two() -> None:
    rows = read([f"2024年{m}月{d}日 10:22:33 步数: {m * 100 + d} 损失: 2.5" for m in (9, 10) for d in range(1, 29)])
    assert [(row["timestamp"].month, row["timestamp"].day) for row in rows] == [(m, d) for m in (9, 10) for d in range(1, 29)]
