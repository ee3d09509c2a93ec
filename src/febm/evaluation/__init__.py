"""Yardsticks for models of functions: two-sample tests, prediction, calibration, embeddings, chains.

Each works on any two sets of curves, or on any `Process`, whether or not a model of this library made them.
"""

from febm.evaluation.calibration import Calibration, check_calibration, simultaneous_band
from febm.evaluation.chains import Convergence, Gap, chain_gap, chain_report, convergence, posterior_gap
from febm.evaluation.embedding import Embedding, embed
from febm.evaluation.pictures import PictureJudge, PictureScores, frechet_distance, total_variation
from febm.evaluation.prediction import Predictive, predict, predictive_scores, summarise
from febm.evaluation.second_opinions import ClassifierTest, SlicedWasserstein, classifier_test, sliced_wasserstein
from febm.evaluation.splits import split
from febm.evaluation.two_sample import TwoSampleTest, power_table, test_power, two_sample_test

__all__ = [
    "Calibration",
    "ClassifierTest",
    "Convergence",
    "Embedding",
    "Gap",
    "PictureJudge",
    "PictureScores",
    "Predictive",
    "SlicedWasserstein",
    "TwoSampleTest",
    "chain_gap",
    "chain_report",
    "check_calibration",
    "classifier_test",
    "convergence",
    "embed",
    "frechet_distance",
    "posterior_gap",
    "power_table",
    "predict",
    "predictive_scores",
    "simultaneous_band",
    "sliced_wasserstein",
    "split",
    "summarise",
    "test_power",
    "total_variation",
    "two_sample_test",
]
