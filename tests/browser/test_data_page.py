"""The Data page on a stored dataset: map, pairs, negatives by tier, schedules, audit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from midstep.data.steering.curriculum import Bands
from midstep.data.steering.storage.tables import open_tables
from midstep.server.datasets.data_roots import DataRoots
from tests.served import Served, serving
from tests.server.datasets import SECRET, store_dataset

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_dataset(tmp_path_factory.mktemp("data") / "small")


@pytest.fixture
def served(stored: Path, tmp_path: Path) -> Iterator[Served]:
    """A viewer's link is enough to read it."""
    with serving(tmp_path / "runs", datasets=DataRoots(stored.parent)) as made:
        yield made


def open_page(page: Page, served: Served, query: str = "") -> None:
    page.goto(f"{served.url}/data{query}#token={served.tokens.viewer}")


def panel(page: Page, name: str | re.Pattern[str]) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def test_a_dataset_is_shown_with_its_first_pair(page: Page, served: Served, stored: Path) -> None:
    open_page(page, served)
    tables = open_tables(stored)
    expect(panel(page, "Clusters")).to_contain_text("160 questions of 200 pairs")
    expect(panel(page, "Pairs")).to_contain_text("1 to 100 of 200 pairs")
    pair = panel(page, "Pair 0")
    expect(pair).to_contain_text(f"cluster {tables['pair_cluster_id'][0]}")
    # Markup in a text is text.
    expect(pair).to_contain_text(SECRET)
    negatives = pair.get_by_role("grid", name="Negatives by tier")
    expect(negatives.get_by_role("row")).to_have_count(1 + 4 + 12)
    for tier, count in ((1, 4), (2, 3), (3, 3), (4, 2)):
        expect(negatives).to_contain_text(re.compile(rf"Tier {tier}.*· {count} · mean"))
    negatives.focus()
    negatives.press("ArrowDown")
    expect(negatives.get_by_role("row", selected=True)).to_have_count(1)
    expect(pair).to_contain_text("the whole text")
    similarities = negatives.get_by_role("row").nth(2), negatives.get_by_role("row").nth(3)
    near, far = (float(row.get_by_role("gridcell").first.inner_text()) for row in similarities)
    assert near >= far
    expect(pair.get_by_role("table", name="Steering vectors").get_by_role("row")).to_have_count(4)
    # The page itself never scrolls at this size.
    assert page.evaluate("document.scrollingElement.scrollHeight <= window.innerHeight")
    assert page.evaluate("(m => m.scrollHeight <= m.clientHeight)(document.querySelector('main'))")


def test_similarities_are_those_of_the_tables(page: Page, served: Served, stored: Path) -> None:
    tables = open_tables(stored)
    question, source = tables["pair_index"][42]
    one, other = tables["question_embs"][question], tables["source_embs"][source]
    near = float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    open_page(page, served, "?pair=42")
    expect(panel(page, "Pair 42")).to_contain_text(f"Source {source} · similarity {near:.3f}")


def test_choosing_a_cluster_filters_the_pairs(page: Page, served: Served, stored: Path) -> None:
    open_page(page, served)
    clusters = open_tables(stored)["pair_cluster_id"]
    places = panel(page, "Clusters").get_by_role("img")
    places.focus()
    places.press("ArrowRight")
    chosen = chosen_cluster(page)
    members = np.flatnonzero(clusters == chosen)
    expect(panel(page, "Pairs")).to_contain_text(re.compile(rf"^Pairs{len(members)}"))
    expect(panel(page, f"Pair {members[0]}")).to_be_visible()
    pill = page.get_by_role("status").filter(has_text=f"Cluster {chosen}")
    expect(pill).to_contain_text(f"{len(members)} pairs")
    # The split narrows it further, a copied link shows the same, and Esc leads out.
    panel(page, "Pairs").get_by_role("radio", name="Val").click()
    expect(page).to_have_url(re.compile("split=val"))
    page.reload()
    val = np.intersect1d(members, open_tables(stored)["val_idx"])
    expect(panel(page, "Pairs")).to_contain_text(
        re.compile(rf"^Pairs{len(val)}") if len(val) else "No pair matches"
    )
    page.keyboard.press("Escape")
    expect(pill).to_have_count(0)
    expect(panel(page, "Pairs")).to_contain_text(re.compile(r"^Pairs20"))


def chosen_cluster(page: Page) -> int:
    """The one that the address names."""
    found = page.wait_for_function("() => /cluster=(\\d+)/.exec(location.search)?.[1]")
    return int(found.json_value())


COLOURED_PIXEL = """canvas => {
    const {width, height} = canvas;
    const {data} = canvas.getContext("2d").getImageData(0, 0, width, height);
    for (let at = 0; at < data.length; at += 4) {
        const [red, green, blue, alpha] = data.slice(at, at + 4);
        const spread = Math.max(red, green, blue) - Math.min(red, green, blue);
        if (alpha > 200 && spread > 80) {
            const scale = canvas.clientWidth / width;
            return [((at / 4) % width) * scale, Math.floor(at / 4 / width) * scale];
        }
    }
    return null;
}"""
"""Where the first mark lies that has a colour; the frame is grey."""


def test_a_click_on_a_mark_chooses_its_cluster(page: Page, served: Served, stored: Path) -> None:
    open_page(page, served, "?theme=light")
    expect(panel(page, "Clusters")).to_contain_text("Click one to see its pairs")
    canvas = panel(page, "Clusters").locator("canvas")
    canvas.scroll_into_view_if_needed()
    x, y = page.wait_for_function(COLOURED_PIXEL, arg=canvas.element_handle()).json_value()
    canvas.click(position={"x": x, "y": y})
    chosen = chosen_cluster(page)
    members = np.flatnonzero(open_tables(stored)["pair_cluster_id"] == chosen)
    expect(panel(page, "Pairs")).to_contain_text(re.compile(rf"^Pairs{len(members)}"))


def test_pairs_are_walked_by_keys_and_pages(page: Page, served: Served) -> None:
    open_page(page, served)
    pairs = panel(page, "Pairs")
    table = pairs.get_by_role("grid", name="Pairs")
    table.get_by_role("row").filter(has=page.get_by_role("rowheader", name="3", exact=True)).click()
    expect(panel(page, "Pair 3")).to_be_visible()
    table.press("ArrowDown")
    expect(panel(page, "Pair 4")).to_be_visible()
    expect(page).to_have_url(re.compile("pair=4"))
    pairs.get_by_role("button", name="Later pairs").click()
    expect(pairs).to_contain_text("101 to 200 of 200 pairs")
    expect(table.get_by_role("rowheader", name="100", exact=True)).to_be_visible()


def test_schedules_are_read_at_an_epoch(page: Page, served: Served) -> None:
    open_page(page, served, "?tab=curriculum&epoch=13")
    figures = {name: page.locator(f"[data-figure={name}]") for name in ("linear_zero", "bands")}
    shares = Bands().shares(12, {})
    words = zip(("zero", "centroid", "keyword", "residual"), shares, strict=True)
    expect(figures["bands"]).to_have_text(
        "Epoch 13: " + ", ".join(f"{name} {100 * share:.1f} %" for name, share in words)
    )
    expect(panel(page, "Linear zero")).to_contain_text("This dataset's")
    expect(panel(page, "Distance gated")).to_contain_text("of the pairs beyond")
    chart = panel(page, "Linear zero").get_by_role("slider")
    chart.focus()
    chart.press("ArrowRight")
    expect(figures["linear_zero"]).to_contain_text("Epoch 14:")
    expect(figures["bands"]).to_contain_text("Epoch 14:")
    chart.press("Home")
    expect(figures["linear_zero"]).to_contain_text("Epoch 1: zero 50.0 %")


def test_audit_and_ledger_lead_to_the_pair(page: Page, served: Served) -> None:
    open_page(page, served, "?tab=audit")
    leaks = panel(page, "Leaks between splits")
    expect(leaks).to_contain_text("3 leaks found")
    expect(panel(page, "Same question")).to_contain_text("None")
    expect(panel(page, "Near duplicate")).to_contain_text("0.970")
    ledger = panel(page, "Negatives")
    expect(ledger).to_contain_text("2 pairs lack negatives in a tier")
    expect(ledger).to_contain_text("2 of tier 2")
    ledger.get_by_role("button", name="42", exact=True).click()
    expect(panel(page, "Pair 42")).to_be_visible()


def test_every_panel_exports_what_it_shows(page: Page, served: Served) -> None:
    for query, subject, item, suffix in [
        ("", "clusters", "PNG", ".png"),
        ("", "pairs", "CSV", ".csv"),
        ("", "the pair", "JSON", ".json"),
        ("?tab=curriculum", "Bands", "CSV", ".csv"),
        ("?tab=audit", "the audit", "CSV", ".csv"),
        ("?tab=audit", "the ledger", "JSON", ".json"),
    ]:
        open_page(page, served, query)
        button = page.get_by_role("button", name=f"Export {subject}")
        expect(button).not_to_have_attribute("aria-disabled", "true")
        button.click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=item).click()
        assert download.value.suggested_filename.endswith(suffix)
        content = Path(download.value.path()).read_bytes()
        assert len(content) > 100
        if suffix == ".json":
            json.loads(content)


def test_dark_and_light_draw_their_own_map(page: Page, served: Served) -> None:
    open_page(page, served, "?theme=light")
    places = panel(page, "Clusters").get_by_role("img")
    expect(places).to_have_attribute("data-theme-drawn", "light")
    page.keyboard.press("t")
    expect(places).to_have_attribute("data-theme-drawn", "dark")


def test_without_a_folder_it_says_how_to_name_one(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path / "runs") as served:
        open_page(page, served)
        datasets = panel(page, "Datasets")
        expect(datasets).to_contain_text("No data folder")
        expect(datasets).to_contain_text("midstep data build")
        expect(datasets).to_contain_text("midstep serve outputs --data data/")
        page.keyboard.type("gl")
        expect(page).to_have_url(re.compile("/live"))
        page.keyboard.type("gd")
        expect(page).to_have_url(re.compile("/data"))


def test_damaged_datasets_say_why_and_the_others_are_shown(page: Page, tmp_path: Path) -> None:
    store_dataset(tmp_path / "data" / "whole", texts=False)
    (tmp_path / "data" / "broken").mkdir()
    (tmp_path / "data" / "broken" / "config.json").write_text("{}")
    with serving(tmp_path / "runs", datasets=DataRoots(tmp_path / "data")) as served:
        open_page(page, served)
        datasets = panel(page, "Datasets")
        expect(datasets).to_contain_text("Damaged: embedding_dim is missing")
        expect(panel(page, "Pair 0")).to_contain_text("The dataset keeps no texts.")
        page.get_by_role("tab", name="Audit").click()
        expect(panel(page, "Leaks between splits")).to_contain_text("midstep data audit")
        expect(panel(page, "Negatives")).to_contain_text("no record of missing negatives")


def test_the_list_of_pairs_is_one_tab_stop(page: Page, served: Served) -> None:
    open_page(page, served)
    pairs = panel(page, "Pairs")
    expect(pairs).to_contain_text("1 to 100 of 200 pairs")
    table = pairs.get_by_role("grid", name="Pairs")
    expect(table.locator("[tabindex='0'], button, a")).to_have_count(0)
    table.focus()
    table.press("End")
    expect(panel(page, "Pair 99")).to_be_visible()
    expect(table.get_by_role("row", selected=True)).to_contain_text("99")
    table.press("Tab")
    expect(table).not_to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(table).to_be_focused()
    table.press("Home")
    expect(panel(page, "Pair 0")).to_be_visible()
