"""The report: one page that says what is good about a model, and what is not."""

import html.parser
import re

import numpy as np
import pandas as pd
import pytest

from febm.curves import Curves
from febm.datasets import load_quadratic
from febm.models import FEBM, Posterior, Process
from febm.reporting import Finding, ReportEffort, build, findings, report
from febm.reporting.subject import mean_curve_error
from febm.reporting.words import percent, split_name
from febm.tilting import TiltTraining

QUICK = ReportEffort(
    permutations=199,
    power_sizes=(10, 20),
    power_kernels=("id",),
    trials=20,
    predicted=20,
    draws=64,
    splits=(("random", 1 / 2), ("middle", 1 / 4)),
    embedded=30,
    shown=10,
)
GRID = np.linspace(-10.0, 10.0, 30)


class WhiteNoise(Process):
    """Values that know nothing of each other: a model that keeps none of the attributes of FEBM."""

    def __init__(self, scale=1.0, outputs=1):
        self.scale = scale
        self.outputs = outputs

    def fit(self, curves, y=None):
        self.fitted_ = True
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "fitted_")

    def sample(self, n, at=None, *, noise=False, random_state=None):
        generator = np.random.default_rng(0)
        if isinstance(at, Curves):
            return at.replace(y=self.scale * generator.normal(size=at.y.shape))
        return Curves.from_grid(at, self.scale * generator.normal(size=(n, len(at), self.outputs)))

    def condition(self, curves, *, random_state=None):
        return WhitePosterior(self, curves.ids)


class WhitePosterior(Posterior):
    def __init__(self, process, ids):
        self.process, self.ids = process, ids

    def mean(self, at):
        if isinstance(at, Curves):
            return at.replace(y=np.zeros_like(at.y))
        return np.zeros((len(self), len(at), self.process.outputs))

    def sample(self, n, at, *, noise=False, random_state=None):
        each = list(at) if isinstance(at, Curves) else [Curves.from_grid(at, np.zeros((1, len(at))))] * len(self)
        generator = np.random.default_rng(1)
        values = [
            self.process.scale * generator.normal(size=(len(c.x), self.process.outputs)) for c in each for _ in range(n)
        ]
        return Curves.from_arrays([c.x for c in each for _ in range(n)], values)

    def interval(self, at, level=0.9, *, noise=False):
        zero = self.mean(at)
        return zero - 1.645 * self.process.scale, zero + 1.645 * self.process.scale

    @property
    def log_evidence(self):
        return np.zeros(len(self))

    @property
    def diagnostics(self):
        return pd.DataFrame({"method": ["exact"] * len(self)})

    def log_density(self, curves):
        return np.zeros(len(self))


class Page(html.parser.HTMLParser):
    """What a page is made of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links, self.images, self.text = [], [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if tag == "a" else []
        self.images += [attributes] if tag == "img" else []

    def handle_data(self, data):
        self.text += data


def quadratics(generator, n):
    signs = generator.choice([-1.0, 1.0], size=(n, 1))
    return Curves.from_grid(GRID, signs * GRID**2 + 10 * generator.normal(size=(n, 1)))


def noise_curves(n=40, seed=0, points=12):
    return Curves.from_grid(np.arange(points), np.random.default_rng(seed).normal(size=(n, points)))


def verdicts(found, topic):
    return [finding.verdict for finding in found.findings if finding.topic == topic]


@pytest.fixture(scope="module")
def fitted():
    data = load_quadratic(0, n_train=60, n_evaluation=60, points=20)
    tilt = TiltTraining(steps=20, patience=10, proposals=256, width=16, depth=1)
    return FEBM(rank=2, components=2, energy_dim=2, tilt=tilt, random_state=0, progress=False).fit(data.train), data


@pytest.fixture(scope="module")
def written(fitted, tmp_path_factory):
    """The report of a fitted model, with a made-up table for the chains, whose examination takes half a minute."""
    model, data = fitted
    path = tmp_path_factory.mktemp("report") / "page.html"
    rows = [("prior", "rhat", 1.002, "largest R-hat"), ("prior", "ess_bulk", 900.0, "smallest effective sample size")]
    table = pd.DataFrame(rows, columns=["chain", "quantity", "value", "meaning"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("febm.evaluation.chains.chain_report", lambda *_, **__: table)
        return report(model, data, path, effort=QUICK)


@pytest.fixture(scope="module")
def page(written):
    return Page(written.path.read_text(encoding="utf-8"))


# The page of a fitted model


def test_page_has_every_section(page):
    sections = ["fitted", "training", "samples", "tests", "prediction", "calibration", "chains", "made"]
    assert [name for name in page.ids if name != "summary"] == sections


def test_no_section_of_a_fitted_model_fails(written, page):
    assert "could not be made" not in page.text
    assert {finding.topic for finding in written.findings} >= {
        "training",
        "tests",
        "prediction",
        "calibration",
        "chains",
    }


def test_findings_stand_on_the_page_before_everything_else(written, page):
    first = page.text.index("What was fitted")
    assert written.findings
    assert all(
        0 <= page.text.index(finding.sentence) < page.text.rindex("What was fitted") for finding in written.findings
    )
    assert page.text.index(written.findings[0].sentence) < page.text.index("class", first)


def test_page_needs_nothing_but_itself(page, written):
    assert not {"script", "iframe", "object", "embed"} & set(page.tags)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.images)
    assert "url(" not in written.path.read_text(encoding="utf-8")


def test_pictures_have_sizes_and_words_for_those_who_do_not_see_them(page):
    assert len(page.images) >= 12
    for image in page.images:
        assert len(image["alt"]) > 10
        assert int(image["width"]) > 300
        assert int(image["height"]) > 100


def test_ids_are_unique_and_file_is_small(page, written):
    assert len(page.ids) == len(set(page.ids))
    assert written.path.stat().st_size < 2_500_000


def test_tables_of_the_report_have_the_documented_columns(written):
    assert list(written.tests.columns) == ["test", "statistic", "pvalue", "n", "m", "corrected"]
    assert {"kernel", "n", "power", "power_se", "floor", "floor_se"} <= set(written.power.columns)
    assert {"split", "mse", "mse_se", "error_share", "crps"} <= set(written.scores.columns)
    assert set(written.calibration["of"]) == {"values", "curves"}
    assert list(written.chains.columns) == ["chain", "quantity", "value", "meaning"]
    assert len(written.seconds) == 7


def test_page_names_the_settings_that_differ_and_only_those(page):
    assert "components" in page.text
    assert "validation" not in page.text


def test_data_set_is_judged_by_its_evaluation_curves(written, page):
    assert int(written.tests["m"].iloc[0]) == 60
    assert "60 training curves" in page.text


@pytest.mark.slow
def test_samplers_of_a_fitted_model_are_examined(fitted, tmp_path):
    found = report(*fitted, tmp_path / "page.html", effort=QUICK)
    assert set(found.chains["chain"]) == {"prior", "posterior"}
    assert "bad" not in verdicts(found, "chains")


# Other things than a fitted FEBM


def test_model_without_any_of_our_attributes_can_be_reported(tmp_path):
    found = report(WhiteNoise().fit(None), noise_curves(), tmp_path / "page.html", effort=QUICK)
    text = Page(found.path.read_text()).text
    assert "could not be made" not in text
    assert found.chains is None
    assert "without chains" in text
    assert "no history" in text
    assert "should not have" in text  # curves of unknown origin: the reader is told to hold them out


def test_model_with_too_small_a_spread_is_called_too_sure(tmp_path):
    found = report(WhiteNoise(scale=0.5).fit(None), noise_curves(100), tmp_path / "page.html", effort=QUICK)
    assert verdicts(found, "calibration") == ["bad", "bad"]
    assert "bad" in verdicts(found, "tests")


def test_two_sets_of_curves_have_no_prediction(tmp_path):
    found = report(noise_curves(30, 1), noise_curves(40, 2), tmp_path / "page.html", effort=QUICK)
    page = Page(found.path.read_text())
    assert page.ids == ["summary", "fitted", "samples", "tests", "made"]
    assert (found.scores, found.calibration, found.chains) == (None, None, None)


def test_same_random_state_gives_the_same_report(tmp_path):
    a, b = noise_curves(30, 1), noise_curves(40, 2)
    first, second = (report(a, b, tmp_path / f"{i}.html", random_state=3, effort=QUICK) for i in range(2))
    assert first.findings == second.findings
    pd.testing.assert_frame_equal(first.tests, second.tests)


def test_arrays_are_curves(tmp_path):
    a, b = np.random.default_rng(0).normal(size=(2, 30, 8))
    assert report(a, b, tmp_path / "page.html", effort=QUICK).tests is not None


def test_curves_with_two_outputs_and_missing_values_are_drawn_and_judged(tmp_path):
    values = np.random.default_rng(0).normal(size=(30, 12, 2))
    values[np.random.default_rng(1).uniform(size=values.shape) < 0.05] = np.nan
    model = WhiteNoise(outputs=2).fit(None)
    found = report(model, Curves.from_grid(np.arange(12), values), tmp_path / "page.html", effort=QUICK)
    text = Page(found.path.read_text()).text
    assert "could not be made" not in text
    assert "Samples, output 2" in text


def test_images_are_drawn_as_images(tmp_path):
    side = np.linspace(0, 1, 6)
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    a, b = np.random.default_rng(0).normal(size=(2, 30, 36))
    found = report(Curves.from_grid(points, a), Curves.from_grid(points, b), tmp_path / "page.html", effort=QUICK)
    text = Page(found.path.read_text()).text
    assert "could not be made" not in text
    assert "images" in text


def test_splits_that_the_curves_do_not_allow_are_left_out_with_a_reason(tmp_path):
    curves = noise_curves(20, points=3)
    found = report(WhiteNoise().fit(None), curves, tmp_path / "page.html", effort=QUICK)
    assert list(found.scores["kind"]) == ["random"]
    assert re.search("“1/4 seen, at the ends” is left out: .* no context", Page(found.path.read_text()).text)


# When something fails


def test_failure_of_a_section_leaves_the_others_and_is_said_first(tmp_path):
    class Broken(WhiteNoise):
        def condition(self, curves, *, random_state=None):
            raise RuntimeError("the <b>posterior</b> is lost\nsecond line")

    found = report(Broken().fit(None), noise_curves(), tmp_path / "page.html", effort=QUICK)
    text = found.path.read_text()
    assert verdicts(found, "prediction") == ["bad"]
    assert verdicts(found, "calibration") == ["bad"]
    assert found.tests is not None
    assert found.scores is None
    assert (
        Page(text).text.count("RuntimeError: the <b>posterior</b> is lost.") == 4
    )  # in the summary and in place, twice


def test_samples_that_are_not_finite_are_a_failure(tmp_path):
    class Exploding(WhiteNoise):
        def sample(self, n, at=None, *, noise=False, random_state=None):
            return Curves.from_grid(at, np.full((n, len(at)), 1e308) * 10.0)

    with np.errstate(over="ignore"):
        found = report(Exploding().fit(None), noise_curves(), tmp_path / "page.html", effort=QUICK)
    assert verdicts(found, "tests") == ["bad"]
    assert found.scores is not None


def test_text_of_users_is_escaped(tmp_path):
    evil = "<script>alert(1)</script>"
    a = Curves.from_grid(
        np.arange(5), np.random.default_rng(0).normal(size=(20, 5)), ids=[f"{evil}{i}" for i in range(20)]
    )
    table = pd.DataFrame({evil: np.arange(20)})
    b = a.replace(y=np.random.default_rng(1).normal(size=a.y.shape), covariates=table)
    found = report(a, b, tmp_path / "page.html", title=evil, effort=QUICK)
    page = Page(found.path.read_text())
    assert "script" not in page.tags
    assert page.text.count(evil) >= 4  # title, heading, ids, covariates


def test_failed_writing_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr("febm.files.os.replace", _refuse)
    with pytest.raises(OSError, match="disk"):
        build.write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def _refuse(*_):
    raise OSError("the disk is full")


@pytest.mark.parametrize(
    ("model", "data", "path", "sentence"),
    [
        (FEBM(), noise_curves(), "page.html", "not fitted"),
        (FEBM, noise_curves(), "page.html", "class FEBM; give a fitted model"),
        (noise_curves(), noise_curves(), "", "is a folder"),
        (noise_curves(), noise_curves(), "no/such/page.html", "does not exist"),
        (noise_curves(), Curves.from_grid(np.arange(4), np.zeros((5, 4, 2))), "page.html", "d_y=1, the data .* d_y=2"),
        (noise_curves(1), noise_curves(), "page.html", "at least two curves"),
        ("nothing", noise_curves(), "page.html", "report: model"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(model, data, path, sentence, tmp_path):
    with pytest.raises((ValueError, TypeError), match=sentence):
        report(model, data, tmp_path / path, effort=QUICK)


def test_effort_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="trials is 0; give a whole number of at least 1"):
        ReportEffort(trials=0)


def test_a_quick_look_says_first_what_was_made_smaller(tmp_path):
    found = report(WhiteNoise().fit(None), noise_curves(), tmp_path / "page.html", effort=ReportEffort.quick())
    text = Page(found.path.read_text()).text
    assert text.index("200 instead of 500 curves on either side of a test") < text.index(found.findings[0].sentence)
    assert "no table of power" in text
    assert "samplers not examined" in text
    assert "2 instead of 9 ways to hide points" in text
    assert (found.chains, len(found.power), len(found.scores)) == (None, 0, 2)
    assert "map" not in text.replace("no maps of curves and samples", "").replace("embedded", "")
    assert "could not be made" not in text


def test_a_report_of_the_usual_effort_or_more_says_nothing_of_it():
    assert ReportEffort().less() == ReportEffort(tested=900, draws=512).less() == ""
    assert ReportEffort(draws=99).less() == (
        "A quick look, with less work than usual: 99 instead of 256 draws of a prediction."
    )


def test_page_says_what_tests_of_this_size_can_see(tmp_path):
    found = report(noise_curves(12, 1), noise_curves(12, 2), tmp_path / "page.html", effort=QUICK)
    assert verdicts(found, "tests")[0] == "unknown"
    assert "With 12 a side only gross differences would show" in Page(found.path.read_text()).text


# Whether the findings are true


def test_one_kind_of_curve_for_two_is_called_out_though_mean_and_covariance_agree(tmp_path):
    generator = np.random.default_rng(0)
    curves = quadratics(generator, 150)
    # a ~ N(0, 1) has the mean and the variance of a = ±1.
    gaussian = Curves.from_grid(GRID, generator.normal(size=(150, 1)) * GRID**2 + 10 * generator.normal(size=(150, 1)))
    found = report(gaussian, curves, tmp_path / "page.html", effort=QUICK)
    assert "bad" in verdicts(found, "tests")


def test_curves_of_one_distribution_are_not_called_different(tmp_path):
    # Holm's correction at 5 %: of such reports at most one in twenty would say otherwise.
    generator = np.random.default_rng(0)
    found = report(quadratics(generator, 150), quadratics(generator, 150), tmp_path / "page.html", effort=QUICK)
    assert found.tests["corrected"].min() >= findings.LEVEL
    assert "bad" not in verdicts(found, "tests")


def test_variance_about_the_mean_curve_is_what_the_mean_curve_would_err():
    curves = Curves.from_grid([0.0, 1.0], [[0.0, 10.0], [2.0, 10.0], [4.0, 13.0]] * 4)
    # Means are 2 and 11: squared distances 4, 1 | 0, 1 | 4, 4.
    np.testing.assert_allclose(mean_curve_error(curves, curves)[:3], [2.5, 0.5, 4.0])


# The rules, on made-up tables


def table_of_tests(*corrected, n=100):
    return pd.DataFrame(
        {"test": [f"t{i}" for i in range(len(corrected))], "corrected": corrected, "n": n, "m": n, "pvalue": corrected}
    )


def power_of(power, floor, n=150, error=0.01):
    return pd.DataFrame(
        [{"kernel": "id", "n": n, "power": power, "power_se": error, "floor": floor, "floor_se": error}]
    )


SIDES = ("samples", "curves")


@pytest.mark.parametrize(
    ("table", "verdict", "words"),
    [
        (
            table_of_tests(0.01, 0.5),
            "bad",
            "One of 2 tests tells 100 samples from 100 curves (smallest corrected p-value 0.010, by t0",
        ),
        (table_of_tests(0.01, 0.02, 0.5), "bad", "2 of 3 tests tell"),
        (table_of_tests(0.1, 0.5), "fair", "hint"),
        (table_of_tests(0.3, 0.5), "good", "None of 2 tests"),
        (table_of_tests(0.3, 0.5, n=12), "unknown", "only gross differences"),
        (table_of_tests(0.01, 0.5, n=12), "bad", "One of 2"),
    ],
)
def test_verdict_on_tests(table, verdict, words):
    found = findings.judge_tests(table, sides=SIDES)
    assert (found.topic, found.verdict) == ("tests", verdict)
    assert words in found.sentence


@pytest.mark.parametrize(
    ("table", "verdict", "words"),
    [
        (power_of(0.97, 0.04), "bad", "tells samples from curves in 97\u00a0% of trials; curves from curves, 4\u00a0%"),
        (power_of(0.3, 0.05), "fair", "30\u00a0%"),
        (power_of(0.06, 0.05), "good", "6\u00a0%"),
        (power_of(0.06, np.nan), "good", "would be chance"),
        (power_of(0.06, 0.05, n=10), "unknown", "overlooks much"),
        (power_of(0.9, 0.05, n=10), "bad", "With 10 a side"),
        (power_of(0.6, 0.6), "unknown", "poor yardstick"),
    ],
)
def test_verdict_on_power(table, verdict, words):
    found = findings.judge_power(table, sides=SIDES)
    assert found.verdict == verdict
    assert words in found.sentence


def test_power_that_could_not_be_measured_gives_no_finding():
    assert findings.judge_power(power_of(0.5, 0.5)[:0], sides=SIDES) is None


@pytest.mark.parametrize(
    ("shares", "verdict", "words"),
    [
        (
            (0.03, 0.2),
            "good",
            "typically 12\u00a0% of the variance about the mean curve (3\u00a0% with s0, 20\u00a0% with s1)",
        ),
        ((0.001, 0.002), "good", "<\u00a01\u00a0% of the variance about the mean curve in all 2 ways"),
        ((0.6, 0.8), "fair", "stays open"),
        ((0.1, 1.5), "bad", "for s1, the mean curve alone would predict better"),
        ((0.1, np.nan), "unknown", "no error that is a number"),
    ],
)
def test_verdict_on_prediction(shares, verdict, words):
    table = pd.DataFrame({"split": ["s0", "s1"], "error_share": shares, "error_share_se": 0.01})
    found = findings.judge_prediction(table)
    assert found.verdict == verdict
    assert words in found.sentence


@pytest.mark.parametrize(
    ("coverage", "error", "width", "verdict", "words"),
    [
        (0.9, 0.01, 1.0, "good", "as promised"),
        (0.84, 0.01, 1.0, "good", "as promised"),  # within two standard errors of 85 %
        (0.81, 0.01, 1.0, "fair", "too narrow"),
        (0.99, 0.001, 1.0, "fair", "wider than"),
        (1.0, 0.0, 0.001, "good", "narrow"),
        (0.6, 0.02, 1.0, "bad", "too sure"),
        (0.8, 0.1, 1.0, "unknown", "too few"),
        (0.3, 0.1, 1.0, "bad", "too sure"),
    ],
)
def test_verdict_on_coverage(coverage, error, width, verdict, words):
    row = {"split": "s", "level": 0.9, "coverage": coverage, "standard_error": error, "width_share": width}
    for of in ("values", "curves"):
        found = findings.judge_coverage(pd.DataFrame([row, {**row, "level": 0.5, "coverage": 0.1}]), of=of)
        assert found.verdict == verdict
        assert words in found.sentence
        assert of in found.sentence


def test_worst_split_decides_the_coverage():
    rows = [
        {"split": name, "level": 0.9, "coverage": c, "standard_error": 0.01} for name, c in (("a", 0.9), ("b", 0.5))
    ]
    found = findings.judge_coverage(pd.DataFrame(rows))
    assert (found.verdict, "50\u00a0%" in found.sentence, "b" in found.sentence) == ("bad", True, True)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({"rhat": 1.005, "ess_bulk": 2000, "gap_pvalue": 0.5, "gap": 0.9}, "good"),
        ({"rhat": 1.03, "ess_bulk": 2000, "gap_pvalue": 0.5}, "fair"),
        ({"rhat": 1.2, "ess_bulk": 2000, "gap_pvalue": 0.5}, "bad"),
        ({"rhat": 1.005, "ess_bulk": 200}, "fair"),
        ({"rhat": 1.005, "effective": 20}, "bad"),
        ({"rhat": 1.005, "ess_bulk": 2000, "gap_pvalue": 0.001}, "fair"),
        ({"rhat": 1.005, "gap": 0.05}, "good"),
        ({"rhat": 1.005, "gap": 0.3}, "fair"),
        ({"rhat": 1.005, "gap": 2.0}, "bad"),
        ({"rhat": np.nan}, "unknown"),
    ],
)
def test_verdict_on_chains(values, verdict):
    table = pd.DataFrame([("prior", name, value, "") for name, value in values.items()])
    table.columns = ["chain", "quantity", "value", "meaning"]
    (found,) = findings.judge_chains(table)
    assert (found.topic, found.verdict) == ("chains", verdict)
    assert found.sentence.startswith("The sampler of new curves ")


@pytest.mark.parametrize(
    ("scores", "options", "verdict", "words"),
    [
        ([0, 1, 3, 2], {}, "good", "kept epoch 2"),
        ([0, 1, 2, 3], {"epochs": 3}, "fair", "still rising"),
        ([0, 1, 2, 3], {"epochs": 30}, "good", "kept epoch 3"),
        ([3, 1, 2, 1], {"start_is_fitted": True}, "good", "fitted base was best"),
        ([3, 1, 2, 1], {}, "bad", "kept its start"),
        ([np.nan] * 4, {}, "bad", "No epoch of 3"),
    ],
)
def test_verdict_on_training(scores, options, verdict, words):
    found = findings.judge_training(pd.DataFrame({"epoch": range(4), "score": scores}), **options)
    assert (found.verdict, words in found.sentence) == (verdict, True)


def test_training_that_was_set_back_is_only_fair():
    history = pd.DataFrame({"epoch": range(4), "score": [0.0, 1, 2, 1], "event": [None, "loss not finite", None, None]})
    found = findings.judge_training(history)
    assert (found.verdict, "set back once" in found.sentence) == ("fair", True)
    assert findings.judge_training(history[:1]) is None


def test_holm_is_what_one_finds_by_hand():
    np.testing.assert_allclose(findings.holm([0.04, 0.01, 0.03, 0.5]), [0.09, 0.04, 0.09, 0.5])
    np.testing.assert_allclose(findings.holm([0.6, 0.7]), [1.0, 1.0])


def test_failure_is_one_sentence():
    assert findings.failure("tests", "Tests", KeyError("x\ny")) == Finding(
        "tests", "bad", "“Tests” could not be made: KeyError: 'x\\ny'."
    )


@pytest.mark.parametrize(
    ("share", "words"), [(0.12, "12 %"), (0.001, "< 1 %"), (0.9999, "> 99 %"), (0, "0 %"), (1, "100 %")]
)
def test_percentages_do_not_claim_more_than_they_know(share, words):
    assert percent(share).replace("\u00a0", " ") == words


def test_splits_have_plain_names():
    names = [split_name("downsample", 1 / 3), split_name("middle", 3 / 4), split_name("random", 0.3)]
    assert names == ["every 3rd point seen", "3/4 seen, at the ends", "a random 3/10 seen"]
