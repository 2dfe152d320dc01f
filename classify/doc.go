// Package classify finds the pattern of each tenant's utilisation over time, and
// groups tenants with similar utilisation into classes (OSDI'16 §3.2 and §4.1).
//
// # The three patterns
//
// A series is averaged into bins, transformed by FFT, and called
//
//   - periodic if one period explains, out of sample, most of what is not white
//     noise, and does so during the whole window;
//   - constant if what is not white noise stays within a few points of a level,
//     and no bursts leave it;
//   - unpredictable otherwise: drift, steps, ramps, bursts, a pattern that stops.
//
// White noise counts neither for nor against a pattern, however much there is.
// It is recognised by neighbouring values: their covariance is 0 for white noise
// and the whole variance for anything slow (von Neumann's ratio).
//
// # Periods
//
// The candidates are the periods of the strongest lines of a Hann-tapered spectrum, and
// small multiples of them, since a harmonic can be stronger than the fundamental. If fewer than eight
// cycles fit into the window, lines are too broad, and all
// periods are tried instead. A candidate is judged by folding: the cycles are
// laid over each other, and each is predicted by the mean of the others (leave one out). This gives
//
//   - the swing: the variance that repeats, corrected for the noise in its estimate;
//   - the rest: the covariance of neighbouring errors, that is drift, steps and bursts;
//   - the noise: the rest of the errors, which is white.
//
// The share swing/(swing+rest) must reach minShare. Drift counts against it on
// purpose: a day on top of a ramp is periodic only as long as the day is more
// than the ramp, and the evidence says how large the drift is. A red series (a
// random walk, 1/f noise) predicts itself by chance in inverse proportion to
// the cycles seen, so 1/cycles is added to the required share. At least three cycles
// must be seen: two may agree by chance. A week needs three weeks.
//
// A pattern that stops midway still explains up to half. So the window is cut into four
// stretches, and in each the slope of the series on its prediction, corrected for
// the flattening by noise, must reach minSteady: 1 is a pattern that is there as
// predicted, 0 one that is missing.
//
// A fold at a multiple of the true period explains as much. The profile's
// harmonics decide: if it has only every m-th, the true period is
// the m-th part. And if a multiple has harmonics in between, the multiple is
// the period: two unequal peaks a day are a period of a day, not of twelve hours. If the height of days varies, even and
// odd days differ by chance too, in inverse proportion to their number: a multiple must explain clearly more than that
// (chanceCycles), the day and the week less (clockCycles). The two are compared in slots of equal width, because a short peak
// fills more of a narrower slot.
//
// A weekly pattern with a considerable daily part is reported as
// 24 h with weekends that differ. In windows shorter than three weeks the same is found
// by giving two days in seven a profile of their own; the data decide which two, since clocks and
// weekends are not the same everywhere.
//
// # Constants and their reasons
//
//   - maxBins 4464: a month of ten-minute bins. A cycle needs four bins to be detected and eight to be distinguished
//     from its multiples, so over a month periods from 40 and 80 minutes. One below shortBins 16 bins is
//     distinguished from its multiples by the samples themselves, and not reported if it has fewer than four.
//   - minSlots 48 and maxSlots 168: half hours of a day, hours of a week. While searching, sketchSlots 3 times
//     fewer and, for few cycles, coarseBins 512 rank candidates at a fraction of the cost.
//   - fewCycles 8, topPeaks 5, maxMultiple 4: a Hann line is four frequencies wide, so lines below eight cycles touch; a
//     narrow peak's five strongest harmonics reach its fundamental with one of their first four multiples.
//   - allExplained 0.97: what is left could not change the answer.
//   - minCycles 2.9: three, less the hours by which a window misses whole cycles.
//   - minShare 0.6: a majority, with room for the error of its estimate.
//   - minSteady 0.6: the pattern may lose a third of its size in a stretch.
//   - minPredicted 0.33: noise may hide two thirds of what one cycle predicts of another, not all of it.
//   - blankStretch 0.1: a stretch whose forecast is nearly flat cannot show the pattern or its lack.
//   - nearlyAsGood 0.01: two peaks whose sizes differ by a fifth differ by this share of variance.
//   - chanceCycles 10, clockCycles 2: an F test of even against odd cycles at about one in a thousand; the day and the week
//     are likely beforehand.
//   - stillThere 0.8: sharp edges lose up to a fifth when a cycle is few bins long.
//   - strongDay 0.25: a day that is silent on two days of seven keeps 45% or more of a week's variance.
//   - weekTells 1.1: days that differ by less are the same for scheduling.
//   - quietPoints 0.015 and quietShare 0.05: "roughly constant" (§3.2). A sine of 2 points, or of 7% of the level,
//     is as much as one busy core on a server of fifty: no scheduling decision turns on it.
//   - clearSigmas 8, chanceLines 7, lineOverFloor 16, echoSigmas 3.5, trendSigmas 5: what white noise exceeds less than
//     once in a thousand series, given how many frequencies (thousands), harmonics (dozens), neighbours (two tests) or trends (one) are looked at.
//   - outlierSigmas 4.5, minOutliers 3: bursts of one sample have a white spectrum, so they are recognised by their
//     distance above the median. One or two samples are an incident, not a pattern. Half the quiet limit suffices, as
//     bursts are rare and their variance understates them.
//   - minWindow 3 days, minSamples 48 and half of all slots: less shows no day three times.
//
// # Classes
//
// K-Means++ (Arthur & Vassilvitskii 2007) within each pattern over profiles
// whose coordinates are all in utilisation, so that none needs a scale: mean,
// peak, the standard deviation in six octaves of frequency, and for periodic
// tenants the cosine and sine of the first harmonic and a fifth of the period's
// octave. Phase is included because the servers of a class then rise and fall
// together, and the class's current utilisation, which OSDI'16 §4.1 uses as headroom, is that of
// each of them.
//
// The number of classes is the one with the lowest Bayesian information
// criterion, with a minimum width of a class: splitting tenants that differ by
// less than resolution (5 points) gains nothing. Classes are
// numbered by period, then mean.
//
// The peak of a tenant is the utilisation its average server exceeds 1% of the
// time, or, if it is periodic and this is more, the highest sample of its mean cycle: a job of ten
// minutes a day fills less than 1% of the time and still comes every day. The peak of a class is the 95th percentile of its
// servers' peaks, and never less than the mean of a member. It sets the headroom for long jobs (§4.1), so it must hold next month:
// Carry measures that.
//
// # Limits
//
// Bursts lower than about three times the noise of a sample that last no longer than a sample or two
// pass for noise, so the tenant passes for constant. So do dips of a sample or two, however deep; longer ones are drift. A period below
// four bins (40 minutes over a month) may pass for noise, too, and one of fewer than four samples is never
// reported. A weekly period cannot be found in less than three weeks.
package classify
