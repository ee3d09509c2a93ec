"""The pictures of images: what was seen, what each model makes of it, and the truth, for whatever models there are."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba

import febm
from febm import Curves, datasets
from febm.benchmark.figures_images import PARTS, draw_part
from febm.benchmark.shelf import fitted_models
from febm.plotting.images import MISSING

SIDE, SHOWN = 8, 3


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The folder of a run with one model of slopes, under the name that its file is given."""
    slopes = np.random.default_rng(0).uniform(0, 0.5, (24 + SHOWN, 2))
    pictures = Curves.from_images((slopes @ febm.grid2d(SIDE, SIDE).T).reshape(-1, SIDE, SIDE))
    data = datasets.Dataset(pictures[:24], pictures[24:], "slopes", "made here", "none")
    monkeypatch.setattr(datasets, "load_fashion_mnist", lambda *_, **__: data)
    model = febm.FPCA(random_state=0, progress=False).fit(data.train)
    (tmp_path / "models").mkdir()

    def keep(*names):
        for name in names:
            model.save(tmp_path / "models" / f"images-{name}-fashion_mnist-default-0.febm")
        return fitted_models(tmp_path), data.evaluation

    return keep


def shown(drawn, label):
    """The picture of a row, all of its images side by side."""
    (axes,) = (axes for axes in drawn.figure.axes if axes.get_ylabel() == label)
    return axes.images[-1].get_array()


@pytest.mark.parametrize("name", PARTS)
def test_every_model_has_its_rows_between_what_was_seen_and_the_truth(run, name):
    models, _ = run("GaussianProcess", "FEBM", "NeuralProcess")
    drawn = draw_part(models, name)
    assert drawn.name == f"images_{name}"
    assert [axes.get_ylabel() for axes in drawn.figure.axes] == [
        "seen",
        *("FEBM\nmean", "FEBM\ndraw", "FEBM\nspread"),
        *("GaussianProcess\nmean", "GaussianProcess\ndraw"),
        *("NeuralProcess\nmean", "NeuralProcess\ndraw"),
        "truth",
    ]
    assert all(axes.images for axes in drawn.figure.axes)


@pytest.mark.parametrize(("name", "pixels"), [("half", 32), ("tenth", 6)])
def test_only_the_pixels_seen_are_shown_as_seen(run, name, pixels):
    models, truth = run("FPCA")
    drawn = draw_part(models, name)
    seen = shown(drawn, "seen")
    assert seen.shape == (SIDE, SHOWN * (SIDE + 1) - 1)
    assert (~np.ma.getmaskarray(seen)).sum() == SHOWN * pixels
    first = seen[:, :SIDE]
    np.testing.assert_allclose(first.compressed(), truth.to_images()[0][~np.ma.getmaskarray(first)])
    (axes,) = (axes for axes in drawn.figure.axes if axes.get_ylabel() == "seen")
    behind = axes.images[0].get_array()
    assert (behind == to_rgba(MISSING)).all(axis=-1).sum() == SHOWN * (SIDE**2 - pixels)


def test_every_second_row_and_column_are_shown_as_the_small_picture_that_they_are(run):
    models, truth = run("FPCA")
    seen = shown(draw_part(models, "upscaled"), "seen")
    assert seen.shape == (SIDE // 2, SHOWN * (SIDE // 2 + 1) - 1)
    np.testing.assert_allclose(seen[:, : SIDE // 2], truth.to_images()[0][::2, ::2])


def test_half_a_slope_is_completed_and_its_spread_is_the_uncertainty(run):
    models, truth = run("FPCA")
    drawn = draw_part(models, "half")
    whole = truth.to_images()
    for label in ("FPCA\nmean", "FPCA\ndraw", "truth"):
        np.testing.assert_allclose(shown(drawn, label)[:, :SIDE], whole[0], atol=0.02)
    assert shown(drawn, "FPCA\nspread").max() < 0.02


def test_without_models_of_images_nothing_is_drawn(run, tmp_path):
    assert [draw_part(fitted_models(tmp_path), name) for name in PARTS] == [None] * 3


def test_a_model_that_cannot_be_read_leaves_the_others_alone(run, tmp_path):
    models, _ = run("FEBM", "GaussianProcess")
    (tmp_path / "models" / "images-GaussianProcess-fashion_mnist-default-0.febm").write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="GaussianProcess on fashion_mnist is not drawn"):
        drawn = draw_part(models, "half")
    assert {axes.get_ylabel() for axes in drawn.figure.axes if not axes.images} == {
        "GaussianProcess\nmean",
        "GaussianProcess\ndraw",
    }
