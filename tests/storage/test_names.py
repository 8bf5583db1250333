"""What printed names mean, alone and beside others."""

from storage.reading import columns


def test_a_language_loss_beside_a_total_is_its_main_part_and_memory_has_its_usual_names() -> None:
    both = columns.beside(frozenset({"step", "loss", "lm_loss", "aux_loss"}))
    assert both["lm_loss"].name == "logits_loss"
    assert columns.beside(frozenset({"step", "lm_loss", "aux_loss"})) == {}
    assert columns.resolve("lm_loss").name == "loss"
    used, total = columns.resolve("gpu_memory_used_gb"), columns.resolve("gpu_memory_total_gb")
    assert (used.name, used.multiply) == ("memory_bytes", 2.0**30)
    assert (total.name, total.multiply) == ("memory_total_bytes", 2.0**30)
    assert columns.resolve("mem_mb").multiply == 2.0**20
    assert columns.resolve("mem_GB").multiply == columns.resolve("mem_gb").multiply == 2.0**30
