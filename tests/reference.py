"""Slow and obvious versions in plain loops, written from the definitions: what the fast ones must equal."""

import math
from itertools import pairwise, permutations

import numpy as np

# metrics


def binned(confidence, correct, upper_edges):
    """One list of (confidence, correct) for each right-closed bin; what is 0 falls into the first."""
    bins = [[] for _ in upper_edges]
    for score, hit in zip(confidence, correct, strict=True):
        for number, upper in enumerate(upper_edges):
            if score <= upper:
                bins[number].append((score, hit))
                break
    return bins


def bin_gaps(bins):
    """(share of the rows, |accuracy - mean confidence|) of each bin that holds a row."""
    n_rows = sum(len(rows) for rows in bins)
    gaps = []
    for rows in bins:
        if rows:
            mean = math.fsum(score for score, _ in rows) / len(rows)
            accuracy = sum(1 for _, hit in rows if hit) / len(rows)
            gaps.append((len(rows) / n_rows, abs(accuracy - mean)))
    return gaps


def equal_width_edges(n_bins):
    """Upper edges, as numpy's linspace rounds them."""
    return [number * (1.0 / n_bins) for number in range(1, n_bins)] + [1.0]


def ece(confidence, correct, n_bins=10):
    bins = binned(confidence, correct, equal_width_edges(n_bins))
    return math.fsum(share * gap for share, gap in bin_gaps(bins))


def mce(confidence, correct, n_bins=10):
    return max(gap for _, gap in bin_gaps(binned(confidence, correct, equal_width_edges(n_bins))))


def adaptive_ece(confidence, correct, n_bins=10):
    """Each bin ends at the confidence of the row where the next n-th of the sorted rows is complete."""
    ordered = sorted(confidence)
    upper = [ordered[math.ceil(len(ordered) * number / n_bins) - 1] for number in range(1, n_bins + 1)]
    return math.fsum(share * gap for share, gap in bin_gaps(binned(confidence, correct, upper)))


def class_wise_ece(probs, labels, n_bins=10):
    n_classes = len(probs[0])
    errors = [
        ece([row[number] for row in probs], [label == number for label in labels], n_bins)
        for number in range(n_classes)
    ]
    return math.fsum(errors) / n_classes


def brier_top_label(confidence, correct):
    return math.fsum((score - hit) ** 2 for score, hit in zip(confidence, correct, strict=True)) / len(confidence)


def brier_multiclass(probs, labels):
    total = 0.0
    for row, label in zip(probs, labels, strict=True):
        for number, value in enumerate(row):
            total += (value - (number == label)) ** 2
    return total / len(labels)


def nll(probs, labels):
    return -math.fsum(math.log(row[label]) for row, label in zip(probs, labels, strict=True)) / len(labels)


def aurc(confidence, correct):
    """Mean over n of the error rate of the n most confident, errors inside a tie counting by their share of it."""
    rows = list(zip(confidence, correct, strict=True))
    ordered = sorted(confidence, reverse=True)
    risks = []
    for n in range(1, len(rows) + 1):
        last = ordered[n - 1]
        above = [hit for score, hit in rows if score > last]
        tied = [hit for score, hit in rows if score == last]
        errors = above.count(False) + tied.count(False) * (n - len(above)) / len(tied)
        risks.append(errors / n)
    return math.fsum(risks) / len(risks)


def aurc_over_all_orders(confidence, correct):
    """The same by brute force: sort every order of the rows, average the areas."""
    areas = []
    for rows in permutations(zip(confidence, correct, strict=True)):
        hits = [hit for _, hit in sorted(rows, key=lambda row: -row[0])]
        risks = [hits[:n].count(False) / n for n in range(1, len(hits) + 1)]
        areas.append(math.fsum(risks) / len(risks))
    return math.fsum(areas) / len(areas)


def aurc_paper(confidence, correct):
    """Drop the least confident row, of ties the first, until one is left; divide by the rows before the drop."""
    kept = sorted(range(len(confidence)), key=lambda row: confidence[row])
    n_rows = len(kept)
    risks = [sum(1 for row in kept if not correct[row]) / n_rows]
    while len(kept) > 1:
        n_before = len(kept)
        kept = kept[1:]
        risks.append(sum(1 for row in kept if not correct[row]) / n_before)
    return math.fsum(risks) / n_rows


def auroc(confidence, correct):
    won, pairs = 0.0, 0
    for high, is_correct in zip(confidence, correct, strict=True):
        for low, other_is_correct in zip(confidence, correct, strict=True):
            if is_correct and not other_is_correct:
                pairs += 1
                won += 1.0 if high > low else 0.5 if high == low else 0.0
    return won / pairs


def fpr95(positives, negatives):
    """Smallest share of negatives at or above a threshold that keeps at least 95 % of the positives."""
    rates = []
    for threshold in {*positives, *negatives}:
        found = sum(1 for score in positives if score >= threshold)
        if found / len(positives) >= 0.95:
            rates.append(sum(1 for score in negatives if score >= threshold) / len(negatives))
    return min(rates)


def coverage(exact_ids, found_ids):
    n_exact = n_found = 0
    for exact, found in zip(exact_ids, found_ids, strict=True):
        wanted = set(exact) - {-1}
        n_exact += len(wanted)
        n_found += len(wanted & set(found))
    return n_found / n_exact


# weight


def knn_weight(distances, neighbor_labels, predicted, alpha, tau, lam, b):
    """The paper's W, one row and one neighbor at a time; a missing neighbor (label -1, inf) adds nothing."""
    weights = []
    for row in range(len(predicted)):
        k = len(distances[row])
        nearness = 0.0
        same = 0
        for distance, label in zip(distances[row], neighbor_labels[row], strict=True):
            nearness += math.exp(-distance / tau)
            same += label == predicted[row]
        weights.append(alpha / k * nearness + lam * (same / k + b))
    return weights


def scaled_softmax(logits, weight):
    """softmax(weight * logits) of one row."""
    top = max(weight * z for z in logits)
    exponentials = [math.exp(weight * z - top) for z in logits]
    return [value / sum(exponentials) for value in exponentials]


# neighbors


def brute_force(features, queries, k):
    """Ids and Euclidean distances of the k nearest rows, by comparing with every row; equal distances by id."""
    all_ids, all_distances = [], []
    for query in queries:
        pairs = []
        for row, feature in enumerate(features):
            squared = sum((a - b) ** 2 for a, b in zip(query, feature, strict=True))
            pairs.append((math.sqrt(squared), row))
        nearest = sorted(pairs)[:k]
        all_ids.append([row for _, row in nearest])
        all_distances.append([distance for distance, _ in nearest])
    return all_ids, all_distances


# entities


def word_case(sentence):
    """(in a sentence of usual case, small, capital) of each word of one sentence, from the definitions."""
    first = next((i for i, word in enumerate(sentence) if any(letter.isalpha() for letter in word)), None)
    usual = first is not None and sentence[first][0].isupper() and any(word[0].islower() for word in sentence)
    found = []
    for i, word in enumerate(sentence):
        handle = word[0] in "@#" or (i > 0 and sentence[i - 1] in ("@", "#"))
        found.append((usual, usual and word[0].islower() and not handle, usual and word[0].isupper() and i != first))
    return found


def standing_out(sentence):
    """(capitals are meant in its sentence, stands out) of each word of one sentence, from the definitions."""
    kinds = []
    for i, word in enumerate(sentence):
        handle = word[0] in "@#" or (i > 0 and sentence[i - 1] in ("@", "#"))
        wordlike = any(letter.isalpha() for letter in word) and not handle
        opens = wordlike and not any(kind != "none" for kind in kinds)
        if not wordlike:
            kinds.append("none")
        elif word == "I" or word.startswith(("I'", "I’")):
            kinds.append("pronoun")
        elif not word[0].isupper():
            kinds.append("lower" if word[0].islower() else "neither")
        else:
            kinds.append("opening" if opens or sentence[i - 1] in (".", "!", "?") else "inside")
    n_lower, n_inside = kinds.count("lower"), kinds.count("inside")
    sparing = n_lower > 0 and n_lower >= n_inside and ("opening" in kinds or n_inside > 0)
    meant = sparing or word_case(sentence)[0][0]
    return [(meant, meant and kind == "inside") for kind in kinds]


def entity_evidence(logits, class_names, sentences, entities, nearest, labels, usual_distance, usual_beside):
    """The seven ingredients of each entity (sentence, type, first, last), from the definitions, word by word."""

    def odds(row, wanted):
        yes = math.fsum(math.exp(value) for value, name in zip(row, class_names, strict=True) if wanted(name))
        no = math.fsum(math.exp(value) for value, name in zip(row, class_names, strict=True) if not wanted(name))
        return max(-12.0, min(12.0, math.log(yes) - math.log(no))) if yes and no else (12.0 if yes else -12.0)

    found = []
    for sentence, kind, first, last in entities:
        start, end = sentences[sentence]
        words = range(first, last + 1)
        own = min(odds(logits[word], lambda name, kind=kind: name[2:] == kind) for word in words)
        link = own
        if first > start:
            link = min(link, odds(logits[first], lambda name: name.startswith("B")))
        if last < end:
            link = min(link, odds(logits[last + 1], lambda name: not name.startswith("I")))
        sides = [word for word in (first - 1, last + 1) if start <= word <= end]
        inside = {place for _, _, a, b in entities for place in range(a, b + 1)}
        outside = [odds(logits[word], lambda name: name == "O") for word in sides if word not in inside]
        beside = min(outside, default=usual_beside)
        apart = float(not any(word in inside for word in sides))
        distance = max(max(-1.0, min(3.0, math.log(nearest[word] / usual_distance))) for word in words)
        agreement = min(sum(class_names[x][2:] == kind for x in labels[word]) / len(labels[word]) for word in words)
        found.append([own, link, beside, apart, distance, agreement])
    for number, (sentence, *_) in enumerate(entities):
        together = [values[1] for values, other in zip(found, entities, strict=True) if other[0] == sentence]
        found[number] = [*found[number][:6], math.fsum(together) / len(together)]
    return found


def conformal_p_values(scores, validation):
    """The share of validation scores, the asked one counted in, that are at least as high."""
    return [(1 + sum(v >= score for v in validation)) / (1 + len(validation)) for score in scores]


def unusualness(train_views, asked_views, shrinkage=1e-3):
    """Mean over views of the z-scored log(1 + Mahalanobis distance), one row and one view at a time."""
    total = [0.0] * len(asked_views)
    for view in range(train_views.shape[1]):
        train = np.asarray(train_views[:, view], dtype=np.float64)
        mean = train.mean(axis=0)
        covariance = np.cov(train.T, bias=True)
        identity = np.eye(len(covariance)) * np.trace(covariance) / len(covariance)
        precision = np.linalg.inv((1 - shrinkage) * covariance + shrinkage * identity)

        def log_distance(row, mean=mean, precision=precision):
            return math.log(1 + math.sqrt((row - mean) @ precision @ (row - mean)))

        own = [log_distance(row) for row in train]
        center, scale = np.mean(own), np.std(own)
        for number, row in enumerate(np.asarray(asked_views[:, view], dtype=np.float64)):
            total[number] += (log_distance(row) - center) / scale
    return [value / train_views.shape[1] for value in total]


def log_scale(probs, labels, *, kappa):
    """The t of a fine grid with the least sum of -log softmax(e^t log p) + kappa/2 t^2, in plain loops."""
    grid = [step / 1000 for step in range(-1500, 1501)]
    return min(grid, key=lambda t: _scaled_loss(probs, labels, t) + 0.5 * kappa * t * t)


def average_log_scale(probs, labels, *, kappa, unchanged):
    """The mean of t under its posterior: a Normal prior with weight 1 - unchanged, a point at 0 with the rest."""
    grid = [step / 50 for step in range(-200, 201)]
    priors = [math.exp(-0.5 * kappa * t * t) for t in grid]
    odds = [
        (1 - unchanged)
        * prior
        / sum(priors)
        * math.exp(_scaled_loss(probs, labels, 0) - _scaled_loss(probs, labels, t))
        for t, prior in zip(grid, priors, strict=True)
    ]
    return sum(weight * t for t, weight in zip(grid, odds, strict=True)) / (sum(odds) + unchanged)


def _scaled_loss(probs, labels, t):
    loss = 0.0
    for row, label in zip(probs, labels, strict=True):
        powers = [float(p) ** math.exp(t) for p in row]
        loss -= math.log(powers[label] / sum(powers))
    return loss


def augrc(confidence, correct):
    """The mean over n of wrong answers among the n most confident, by trapezoids between the ends of ties."""
    rows = list(zip(confidence, correct, strict=True))
    points = [(0.0, 0.0)]
    for threshold in sorted(set(confidence), reverse=True):
        answered = [hit for score, hit in rows if score >= threshold]
        points.append((len(answered) / len(rows), answered.count(False) / len(rows)))
    return math.fsum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))


def risk_at_coverage(confidence, correct, coverage):
    """Take the most confident rows, of a tie all by the same part, until the share is full."""
    left, wrong = coverage * len(confidence), 0.0
    for threshold in sorted(set(confidence), reverse=True):
        tied = [hit for score, hit in zip(confidence, correct, strict=True) if score == threshold]
        taken = min(left, len(tied))
        wrong += taken * tied.count(False) / len(tied)
        left -= taken
    return wrong / (coverage * len(confidence))


def coverage_at_risk(confidence, correct, risk):
    """The largest share at or above a threshold whose error rate is allowed."""
    best = 0.0
    for threshold in set(confidence):
        answered = [hit for score, hit in zip(confidence, correct, strict=True) if score >= threshold]
        if answered.count(False) / len(answered) <= risk + 1e-12:
            best = max(best, len(answered) / len(confidence))
    return best


def brier_refinement(confidence, correct):
    """The Brier score after the best rising map, by merging neighbors that fall."""
    blocks = []
    for value in sorted(set(confidence)):
        hits = [hit for score, hit in zip(confidence, correct, strict=True) if score == value]
        blocks.append([sum(hits), len(hits)])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            right, n = blocks.pop()
            blocks[-1] = [blocks[-1][0] + right, blocks[-1][1] + n]
    return math.fsum(right * (1 - right / n) ** 2 + (n - right) * (right / n) ** 2 for right, n in blocks) / len(
        correct
    )


def piece(confidence, correct, proximity, n_bins):
    """The gap of every cell of confidence and proximity, weighted by its rows."""
    edges = [float(edge) for edge in np.quantile(proximity, np.linspace(0, 1, n_bins + 1)[1:-1])]
    cells = {}
    for score, hit, near in zip(confidence, correct, proximity, strict=True):
        row = sum(1 for edge in edges if near >= edge)
        column = max(math.ceil(score * n_bins) - 1, 0)
        cells.setdefault((row, column), []).append(score - hit)
    return math.fsum(abs(math.fsum(gaps)) for gaps in cells.values()) / len(confidence)


# detection


def log_sum_exp(logits):
    """log sum exp of one row."""
    top = max(logits)
    return top + math.log(math.fsum(math.exp(z - top) for z in logits))


def unit_length(row):
    length = math.sqrt(math.fsum(x * x for x in row))
    return [x / length for x in row]


def virtual_logit(train_logits, train_features, logits, features):
    """ViM: log sum exp(logits) - a |residual|, a the mean |largest logit| over the mean residual of training rows."""
    rows = np.asarray(train_features, dtype=np.float64)
    center = [math.fsum(column) / len(rows) for column in rows.T]
    # Singular vectors of the centered rows, the strongest first: half of the columns are principal.
    _, _, directions = np.linalg.svd(rows - center)
    rest = directions[len(center) // 2 :]

    def residual(row):
        parts = [math.fsum(d * (x - o) for d, x, o in zip(direction, row, center, strict=True)) for direction in rest]
        return math.sqrt(math.fsum(part * part for part in parts))

    factor = math.fsum(abs(max(row)) for row in train_logits) / math.fsum(residual(row) for row in rows)
    return [log_sum_exp(z) - factor * residual(row) for z, row in zip(logits, features, strict=True)]


def mahalanobis_plus(train_features, labels, features, shrinkage=1e-3):
    """Minus the least Mahalanobis distance to a class mean, one covariance of all classes, every row of length 1."""
    rows = [unit_length(row) for row in train_features]
    width = len(rows[0])
    means = {}
    for label in set(labels):
        own = [row for row, other in zip(rows, labels, strict=True) if other == label]
        means[label] = [math.fsum(column) / len(own) for column in zip(*own, strict=True)]
    covariance = np.zeros((width, width))
    for row, label in zip(rows, labels, strict=True):
        for i in range(width):
            for j in range(width):
                covariance[i, j] += (row[i] - means[label][i]) * (row[j] - means[label][j]) / len(rows)
    average = math.fsum(covariance[i, i] for i in range(width)) / width
    precision = np.linalg.inv((1 - shrinkage) * covariance + shrinkage * average * np.eye(width))
    scores = []
    for row in features:
        apart = [np.subtract(unit_length(row), mean) for mean in means.values()]
        scores.append(-min(math.sqrt(difference @ precision @ difference) for difference in apart))
    return scores
