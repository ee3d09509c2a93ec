"""Models among scikit-learn's tools: searches, pipelines, tables, and what they make of missing values."""

import functools
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from contract import QUICK, TINY_MODELS, pairs, ragged, waves
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.metadata_routing import get_routing_for_object

import febm
from febm import inference
from febm.curves import Curves

HOURS = np.linspace(0, 2, 15)


SMALL = 3 * np.random.default_rng(0).uniform(size=(20, 3))


@functools.cache
def fitted(name):
    return TINY_MODELS[name]().fit(SMALL)


def fpca(rank=2):
    return febm.FPCA(**QUICK, rank=rank)


@pytest.fixture(scope="module")
def complete():
    return waves(40).y.reshape(40, 15)


@pytest.fixture(scope="module")
def table(complete):
    """A tenth of the values are missing, and all of row 3."""
    values = np.where(np.random.default_rng(0).uniform(size=complete.shape) < 0.1, np.nan, complete)
    values[3] = np.nan
    return values


@pytest.fixture(scope="module")
def model(table):
    return fpca().fit(table)


class TestScore:
    def test_it_is_the_log_evidence_per_observed_value(self, model, table):
        seen = np.delete(table, 3, axis=0)
        expected = model.log_evidence(seen).sum() / np.sum(~np.isnan(seen))
        assert model.score(seen) == pytest.approx(expected)

    def test_a_row_without_values_does_not_count(self, model, table):
        assert model.score(table) == pytest.approx(model.score(np.delete(table, 3, axis=0)))

    def test_it_is_the_same_of_an_array_and_of_curves(self, complete):
        model = fpca().fit(complete)
        assert model.score(complete[:5]) == pytest.approx(model.score(Curves.from_grid(np.arange(15), complete[:5])))

    @pytest.mark.parametrize("kind", ["array", "grid", "ragged"])
    def test_a_search_finds_the_rank_of_the_curves(self, complete, kind):
        """The waves have two coefficients each."""
        data = {"array": complete, "grid": waves(40), "ragged": ragged(40)}[kind]
        search = GridSearchCV(fpca(), {"rank": [1, 2]}, cv=2).fit(data)
        assert search.best_params_ == {"rank": 2}
        assert np.isfinite(search.score(data))

    def test_cross_validation_takes_curves_with_covariates(self):
        curves = waves(20).replace(covariates=pd.DataFrame({"kind": np.arange(20)}))
        assert np.isfinite(cross_val_score(fpca(), curves, cv=2)).all()


class TestColumns:
    def test_those_of_an_array_are_at_whole_numbers(self, model):
        np.testing.assert_array_equal(model.columns_[:, 0], np.arange(15))
        assert model.n_features_in_ == 15

    @pytest.mark.parametrize("names", [list(HOURS), [repr(hour) for hour in HOURS.tolist()]], ids=["numbers", "text"])
    def test_those_of_a_table_are_at_their_names_where_these_are_numbers(self, complete, names):
        model = fpca().fit(pd.DataFrame(complete, columns=names))
        np.testing.assert_array_equal(model.grid_[:, 0], HOURS)

    def test_other_names_say_nothing_of_points(self, complete):
        model = fpca().fit(pd.DataFrame(complete, columns=[f"v{i}" for i in range(15)]))
        np.testing.assert_array_equal(model.grid_[:, 0], np.arange(15))
        assert list(model.feature_names_in_[:2]) == ["v0", "v1"]

    def test_their_order_is_that_of_the_fit_however_they_lie(self, complete):
        straight = fpca().fit(pd.DataFrame(complete, columns=HOURS))
        turned = fpca().fit(pd.DataFrame(complete[:, ::-1], columns=HOURS[::-1]))
        np.testing.assert_allclose(turned.score(complete[:, ::-1]), straight.score(complete))

    def test_a_table_with_columns_elsewhere_is_refused(self, complete):
        model = fpca().fit(pd.DataFrame(complete, columns=HOURS))
        with pytest.raises(ValueError, match=r"columns at 1, …, 3, but FPCA was fitted to columns at 0, …, 2"):
            model.transform(pd.DataFrame(complete, columns=HOURS + 1))

    def test_curves_may_be_anywhere_after_a_fit_to_an_array(self, complete):
        model = fpca().fit(complete)
        assert model.transform(Curves.from_grid([2.5, 7.5], complete[:3, :2])).shape == (3, 2)

    def test_a_table_has_points_of_its_own_after_a_fit_to_curves(self, complete):
        model = fpca().fit(waves(40))
        first = pd.DataFrame(complete[:3, :5], columns=HOURS[:5])
        np.testing.assert_allclose(
            model.transform(first), model.transform(Curves.from_grid(HOURS[:5], complete[:3, :5]))
        )

    def test_a_fit_to_curves_forgets_the_columns(self, complete):
        model = fpca().fit(pd.DataFrame(complete, columns=[f"v{i}" for i in range(15)])).fit(waves(40))
        assert not any(hasattr(model, name) for name in ("n_features_in_", "feature_names_in_", "columns_"))

    def test_another_width_is_refused_in_scikit_learns_words(self, model):
        with pytest.raises(ValueError, match="X has 4 features, but FPCA is expecting 15 features as input"):
            model.condition(np.zeros((2, 4)))

    def test_a_long_table_is_sent_to_its_own_door(self):
        with pytest.raises(TypeError, match=r"columns that are not numbers \('day'\).*Curves.from_frame"):
            fpca().fit(pd.DataFrame({"day": ["a", "b"], "hour": [0.0, 1.0], "demand": [1.0, 2.0]}))

    @pytest.mark.parametrize("names", [["curve", "x", "y"], ["patient", "hour", "dose"]])
    def test_a_long_table_of_numbers_is_not_taken_for_curves(self, names):
        frame = ragged(6).to_frame().set_axis(names, axis=1)
        with pytest.raises(TypeError, match=f"{names[1]!r} begins anew for every {names[0]!r}.*Curves.from_frame"):
            fpca().fit(frame)
        assert fpca().fit(frame.to_numpy()).n_features_in_ == 3

    def test_a_long_table_whose_points_are_in_no_order_is_not_taken_for_curves(self):
        frame = ragged(6).to_frame().set_axis(["patient", "hour", "dose"], axis=1)
        frame = frame.sample(frac=1.0, random_state=0).sort_values("patient", kind="stable")
        with pytest.raises(TypeError, match=r"its rows come in blocks of one 'patient'.*Curves.from_frame"):
            fpca().fit(frame)

    def test_a_wide_table_with_a_column_of_ids_is_sent_to_its_own_door(self, complete):
        frame = pd.DataFrame(np.column_stack([np.arange(40), complete]), columns=["id", *map(str, HOURS)])
        with pytest.raises(TypeError, match=r"by their places, but not all \('id'\).*Curves.from_wide"):
            fpca().fit(frame)

    def test_columns_named_by_dates_are_refused(self, complete):
        dates = pd.to_datetime(["2026-01-01", "2026-01-02", "2026-03-01"])
        with pytest.raises(TypeError, match="named by dates or durations"):
            fpca().fit(pd.DataFrame(complete[:, :3], columns=dates))

    def test_curves_that_begin_alike_and_grow_are_no_long_table(self):
        values = np.linspace(1, 2, 8)[:, None] * np.sin([0.0, 0.5, 1.0])
        assert fpca(rank=1).fit(pd.DataFrame(values, columns=["a", "b", "c"])).n_features_in_ == 3

    def test_values_under_a_mask_are_missing(self, table):
        hidden = np.ma.masked_array(np.nan_to_num(table, nan=1e6), mask=np.isnan(table))
        assert fpca().fit(hidden).score(hidden) == pytest.approx(fpca().fit(table).score(table))

    def test_dates_are_no_values(self):
        with pytest.raises(ValueError, match="dates"):
            fpca().fit(np.zeros((5, 3), dtype="datetime64[D]"))

    def test_nothing_but_nan_is_refused(self):
        with pytest.raises(ValueError, match="no value that is not NaN"):
            fpca().fit(np.full((5, 3), np.nan))

    def test_saved_and_loaded_they_are_the_same(self, complete, tmp_path):
        model = fpca().fit(pd.DataFrame(complete, columns=[f"v{i}" for i in range(15)]))
        model.save(tmp_path / "model.febm")
        loaded = febm.load(tmp_path / "model.febm")
        np.testing.assert_array_equal(loaded.feature_names_in_, model.feature_names_in_)
        with pytest.raises(ValueError, match="feature names should match"):
            loaded.transform(pd.DataFrame(complete, columns=[f"w{i}" for i in range(15)]))


class TestTransformer:
    @pytest.mark.parametrize("name", [name for name in TINY_MODELS if name != "GaussianProcess"])
    def test_curves_become_latents_with_names(self, name):
        model = fitted(name)
        latents, names = model.transform(SMALL), model.get_feature_names_out()
        assert latents.shape == (20, len(names))
        assert list(names) == [f"{name.lower()}{i}" for i in range(len(names))]
        assert np.isfinite(latents).all()

    def test_the_latents_of_a_curve_do_not_depend_on_those_beside_it(self):
        model, gaps = fitted("FEBM"), SMALL.copy()
        gaps[::2, 1] = np.nan
        alone = np.concatenate([model.transform(gaps[i : i + 1]) for i in range(20)])
        np.testing.assert_allclose(model.transform(gaps), alone, atol=1e-7)

    def test_curves_are_weighed_against_the_tilt_together(self, monkeypatch):
        """One by one, each would take the time of sixty-four."""
        calls, energies = [], inference._energies
        monkeypatch.setattr(inference, "_energies", lambda *given: calls.append(1) or energies(*given))
        fitted("FEBM").transform(SMALL)
        assert len(calls) == 1

    def test_a_curve_half_seen_has_nearly_the_latents_of_the_whole(self, complete):
        model = fpca().fit(complete)
        half = complete.copy()
        half[:, ::2] = np.nan
        whole, seen = model.transform(complete), model.transform(half)
        assert np.abs(whole - seen).max() < 0.1 * whole.std()

    def test_a_pipeline_regresses_on_latents(self, complete):
        """y is a difference of values, which is linear in the two coefficients of a wave."""
        y = complete[:, 0] - complete[:, -1]
        pipeline = make_pipeline(fpca(), Ridge(alpha=1e-6)).fit(complete, y)
        assert pipeline.score(complete, y) > 0.98

    def test_a_pipeline_takes_ragged_curves(self):
        curves, y = ragged(40), waves(40, points=40, seed=1).y.reshape(40, 40)[:, 0]
        assert make_pipeline(fpca(), Ridge(alpha=1e-6)).fit(curves, y).score(curves, y) > 0.9

    def test_without_a_fit_it_says_so(self):
        for action in (lambda model: model.transform(np.zeros((2, 3))), lambda model: model.get_feature_names_out()):
            with pytest.raises(febm.NotFittedError, match="fit"):
                action(fpca())

    def test_a_gaussian_process_has_no_latents(self):
        assert not hasattr(febm.GaussianProcess(), "transform")


class TestImputer:
    def test_nothing_is_missing_and_what_was_there_is_untouched(self, model, table):
        found = model.impute(table)
        seen = ~np.isnan(table)
        assert not np.isnan(found).any()
        np.testing.assert_array_equal(found[seen], table[seen])

    def test_what_was_missing_is_nearly_right(self, model, table, complete):
        """The waves have noise of 0.05; a fill is right to within a few times that."""
        found = model.impute(table)
        hidden = np.isnan(table)
        hidden[3] = False
        assert np.sqrt(np.mean((found - complete)[hidden] ** 2)) < 0.2

    def test_a_row_without_values_gets_the_mean(self, model, table):
        expected = model.sample(4000, random_state=1).y.reshape(4000, 15)
        error = model.impute(table)[3] - expected.mean(axis=0)
        # Five standard errors of the mean of 1,024 draws, and of this one.
        assert (np.abs(error) < 5 * expected.std(axis=0) * np.sqrt(1 / 1024 + 1 / 4000)).all()

    def test_a_table_comes_back_as_a_table(self, table):
        frame = pd.DataFrame(table, index=[f"r{i}" for i in range(40)], columns=[f"v{i}" for i in range(15)])
        found = fpca().fit(frame).impute(frame)
        pd.testing.assert_index_equal(found.index, frame.index)
        pd.testing.assert_index_equal(found.columns, frame.columns)

    @pytest.mark.parametrize("missing", [None, np.nan], ids=["null", "NaN"])
    def test_a_table_of_polars_comes_back_as_one(self, model, table, missing):
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame(table, schema=[f"v{i}" for i in range(15)], orient="row").fill_nan(missing)
        found = fpca().fit(frame).impute(frame)
        assert isinstance(found, polars.DataFrame)
        assert found.columns == frame.columns
        np.testing.assert_array_equal(found.to_numpy(), model.impute(table))

    def test_a_wide_table_named_by_places_comes_back_with_them(self, table):
        polars = pytest.importorskip("polars")
        places = np.linspace(0, 2, 15)
        frame = pd.DataFrame(table, columns=places)
        filled = fpca().fit(frame).impute(frame)
        pd.testing.assert_index_equal(filled.columns, frame.columns)
        wide = polars.DataFrame(table, schema=[repr(float(place)) for place in places], orient="row")
        found = fpca().fit(wide).impute(wide)
        assert found.columns == wide.columns
        np.testing.assert_array_equal(found.to_numpy(), filled.to_numpy())

    def test_a_labelled_array_comes_back_as_one(self, table):
        xarray = pytest.importorskip("xarray")
        labels = {"day": [f"d{i}" for i in range(40)], "hour": np.linspace(0, 2, 15)}
        array = xarray.DataArray(table, labels, ("day", "hour"), name="load", attrs={"units": "MW"})
        model = fpca().fit(array.drop_isel(day=3))  # which has no values
        found = model.impute(array)
        assert (found.dims, found.name, found.attrs) == (array.dims, "load", {"units": "MW"})
        assert not found.isnull().any()
        np.testing.assert_array_equal(found.values[~np.isnan(table)], table[~np.isnan(table)])
        turned = model.impute(array.transpose("hour", "day").drop_vars("day"))  # the places come first
        assert turned.dims == ("hour", "day")
        np.testing.assert_array_equal(turned.values.T, found.values)

    def test_a_labelled_array_without_places_comes_back_as_one(self, model, table):
        xarray = pytest.importorskip("xarray")
        found = model.impute(xarray.DataArray(table, dims=("day", "point")))
        assert found.dims == ("day", "point")
        np.testing.assert_array_equal(found.values, model.impute(table))

    def test_labelled_maps_come_back_as_maps(self):
        xarray = pytest.importorskip("xarray")
        north, east = np.linspace(0, 1, 4), np.linspace(0, 1, 5)
        weights = np.random.default_rng(0).normal(size=(30, 1, 1))
        maps = xarray.DataArray(
            weights * np.sin(3 * north)[:, None] * np.cos(east),
            {"north": north, "east": east},
            ("day", "north", "east"),
        )
        gaps = maps.copy()
        gaps[0, 1, 2] = np.nan
        found = fpca(rank=1).fit(maps).impute(gaps)
        assert found.dims == maps.dims
        assert float(abs(found - maps).max()) < 0.1

    def test_outputs_that_curves_lack_are_filled(self):
        curves = pairs(30)
        found = fpca(rank=4).fit(curves).impute(curves)
        assert np.isnan(curves.y).sum() == 1
        assert not np.isnan(found.y).any()
        np.testing.assert_array_equal(found.y[~np.isnan(curves.y)], curves.y[~np.isnan(curves.y)])

    def test_curves_that_lack_nothing_are_themselves(self, model):
        curves = ragged(3)
        model = febm.FPCA(**QUICK, rank=2).fit(ragged(30))
        with pytest.warns(UserWarning, match="nothing of theirs is missing"):
            assert model.impute(curves) is curves

    @pytest.mark.parametrize("name", ["FEBM", "EBP", "VIP"])
    def test_every_model_fills(self, name):
        gaps = SMALL.copy()
        gaps[:5, 1] = np.nan
        assert np.isfinite(fitted(name).impute(gaps)).all()

    def test_as_a_transformer_it_fits_a_clone(self, table, model):
        own = fpca()
        imputer = febm.Imputer(own)
        np.testing.assert_array_equal(imputer.fit_transform(table), model.impute(table))
        assert not own.__sklearn_is_fitted__()
        assert imputer.score(table) == model.score(table)

    def test_set_output_makes_tables(self, table):
        frame = pd.DataFrame(table, index=[f"r{i}" for i in range(40)], columns=[f"v{i}" for i in range(15)])
        found = febm.Imputer(fpca()).set_output(transform="pandas").fit_transform(frame)
        assert list(found.columns) == list(frame.columns)
        assert list(found.index) == list(frame.index)

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    @pytest.mark.parametrize("asked", ["default", "pandas", "polars"])
    def test_a_table_comes_back_as_it_came_unless_another_is_asked_for(self, table, library, asked):
        polars = pytest.importorskip("polars")
        names = [f"v{i}" for i in range(15)]
        frames = {
            "pandas": pd.DataFrame(table, columns=names),
            "polars": polars.DataFrame(table, schema=names, orient="row"),
        }
        found = febm.Imputer(fpca()).set_output(transform=asked).fit_transform(frames[library])
        assert isinstance(found, type(frames[library if asked == "default" else asked]))
        assert list(found.columns) == names

    def test_names_that_were_not_there_in_fit_are_not_handed_on(self, table):
        imputer = febm.Imputer(fpca()).fit(table)
        with pytest.warns(UserWarning, match="fitted without feature names"):
            found = imputer.transform(pd.DataFrame(table, columns=[f"v{i}" for i in range(15)]))
        assert isinstance(found, np.ndarray)

    def test_curves_come_back_as_curves(self):
        curves = pairs(30)
        assert not np.isnan(febm.Imputer(fpca(rank=4)).fit_transform(curves).y).any()

    def test_a_search_over_a_pipeline_reaches_the_model(self, table, complete):
        pipeline = make_pipeline(febm.Imputer(fpca()), Ridge())
        search = GridSearchCV(pipeline, {"imputer__model__rank": [1, 2]}, cv=2).fit(table, complete[:, 0])
        assert search.best_params_ == {"imputer__model__rank": 2}

    def test_what_is_no_model_is_refused(self):
        with pytest.raises(TypeError, match=r"Imputer: model is 'mean'; give a model such as febm.FPCA\(\)"):
            febm.Imputer("mean").fit(np.zeros((5, 3)))

    def test_without_a_fit_it_says_so(self):
        with pytest.raises(febm.NotFittedError, match=r"Imputer\.transform"):
            febm.Imputer(fpca()).transform(np.zeros((2, 3)))
        with pytest.raises(febm.NotFittedError, match=r"FPCA\.impute"):
            fpca().impute(np.zeros((2, 3)))


class TestManners:
    def test_a_pickled_model_is_the_same_model(self, model, table):
        assert pickle.loads(pickle.dumps(model)).score(table) == model.score(table)

    def test_curves_are_no_metadata_to_route(self, table):
        with sklearn.config_context(enable_metadata_routing=True):
            assert not get_routing_for_object(fpca()).consumes("fit", {"curves"})
            assert not hasattr(fpca(), "set_score_request")
            GridSearchCV(make_pipeline(febm.Imputer(fpca()), Ridge()), {}, cv=2).fit(table, np.arange(40))

    @pytest.mark.parametrize("name", TINY_MODELS)
    def test_it_shows_itself_in_short(self, name):
        model = getattr(febm, name)(random_state=0)
        assert repr(model) == f"{name}(random_state=0)"
        assert name in model._repr_html_()
