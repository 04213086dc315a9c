"""What stands below each figure and above each table of a study, by the name it is saved under.

`activations` and `words` hold for all figures whose names begin so, as `words_reversal_mle`.
"""

__all__ = ["CAPTIONS", "TABLE_CAPTIONS"]

CAPTIONS = {
    "network": (
        "The Sentence Gestalt network. Words come in one constituent at a time and change the "
        "gestalt, which is fed back at the next word. A probe, a role or a filler, is answered "
        "from the gestalt by the output units."
    ),
    "posterior": (
        "Where the posterior sits. Everything up to the features ψ is trained once and kept; only "
        "the weights θ into each output unit are uncertain. An ensemble of them gives an ensemble "
        "of answers, and its mean and spread are the degree of belief. The numbers are made up."
    ),
    "learning": (
        "Loss and accuracy during training. Thin lines are networks, thick lines their mean; the "
        "dotted line is what a model scores that leaves every output unit off."
    ),
    "beliefs": (
        "One item word by word. Bars are means over networks with standard deviations; black "
        "dashes are the exact beliefs of the world, which has none once the words are impossible."
    ),
    "activations": (
        "Mean activations at the critical word. The trained network (MLE) stands beside the "
        "Bayesian one, by the paper's sampler at the central prior; numbers above the bars are the "
        "means over networks and items. Error bars are standard deviations over items of the "
        "networks' mean. Indicated units are those that the sentence's syntax puts into the role."
    ),
    "words": (
        "Activations word by word. Rows are the words heard so far, columns the probes. Bars are "
        "means over networks and items, error bars standard deviations over networks after "
        "averaging items. Plausible units are those of the baseline sentence; where an indicated "
        "unit is also a plausible one, a bar carries both names."
    ),
    "prior": (
        "The effect against prior variance. The effect is the Bayesian activation minus that of "
        "the trained network at the critical word; dots are networks (items averaged), diamonds "
        "their mean. The two samplers are moved apart a little so that both can be seen."
    ),
    "tau": (
        "The effect along sampler time. The ensemble starts at the prior and moves to the "
        "posterior, so the activation of the indicated units depends on where it is stopped; white "
        "diamonds mark the number of steps that the paper took. Thin lines are networks, the thick "
        "line is their mean, and both axes are logarithmic. The reference lines are of the same "
        "networks, which are fewer than in the tables."
    ),
    "uncertainty": (
        "Predictive uncertainty after each word. The height of a bar is the total entropy of the "
        "posterior's mean answer, split into the entropy expected once the weights are known "
        "(aleatoric) and the rest (epistemic); black dashes are the entropy of the trained "
        "network's answer. Averaged over items, the tracked roles as probes and the tracked units; "
        "error bars are standard deviations of the total over networks."
    ),
    "calibration": (
        "Activations of the trained networks against the exact probabilities of the world. Points "
        "are means over questions with about the same answer, lines the middle 90 %."
    ),
    "calibration_posterior": (
        "Activations against exact beliefs, for the sentences of the study. All words and probes "
        "for which the words heard so far are possible; units of the item, and all others with a "
        "probability above zero. Points are means of bins of exact probability (zero has its own), "
        "lines the middle 90 % of activations."
    ),
    "nuts": (
        "The samplers against NUTS, for one network and the same questions at the critical word. "
        "Above, each sampler's posterior means and the widths of its 90 % intervals against those "
        "of NUTS, where the diagonal means agreement; below, means and intervals one by one. "
        "Activations are on logit axes, so that small ones can be told apart."
    ),
    "specification_curve": (
        "The effect over all combinations of choices. Above, the effects in order of size with "
        "their intervals; below, a mark for each choice behind the analysis in that column."
    ),
}


TABLE_CAPTIONS = {
    "against_zero_models": (
        "Tests of activations against zero, model analysis: items are averaged, n counts networks."
    ),
    "against_zero_items": (
        "Tests of activations against zero, item analysis: networks are averaged, n counts items."
    ),
    "paired_models": (
        "Bayesian minus trained activations, paired by network (items averaged); the columns that "
        "begin with logit repeat the test on the logit scale."
    ),
    "paired_items": (
        "Bayesian minus trained activations, paired by item (networks averaged); the columns that "
        "begin with logit repeat the test on the logit scale."
    ),
    "priors_models": (
        "Bayesian minus trained activations for each prior variance, paired by network."
    ),
    "mixed_model": (
        "Bayesian minus trained on the logit scale, with networks and items as crossed random "
        "effects."
    ),
    "every_word_models": (
        "Bayesian minus trained activations at every word, paired by network (items averaged): "
        "position counts the words heard. Which of them is the critical word is a choice, and "
        "this table shows what hangs on it."
    ),
    "impossible_numbers": "Printed values that the stated test cannot give.",
}
