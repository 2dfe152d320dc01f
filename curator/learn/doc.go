// Package learn decides when an upkeep task is worth running, from what its runs
// did to latency: Q-learning as NSDI'17 §4.2-4.3, for any task that a threshold
// would otherwise start.
//
// # What is learned
//
// A state is what the cluster looks like (Tiering has the paper's six numbers), an
// action is to run the task or to wait, and the reward is the negative mean latency
// until the next poll. The value of an action in a state is a linear model, one for
// each action, and each poll moves the model of the last action towards
//
//	reward + Gamma * (value of the better action in the new state)
//
// by one step of gradient descent on the squared error. A poll is due every 30
// seconds, and 5 minutes after a run: the effect of a run takes time to show. The
// better action is taken, or with probability Epsilon any of the two.
//
// An Agent is a pure machine: a poll goes in, a decision comes out, and someone
// else carries it out. It reads no clock and draws from the generator it was given.
//
// # What the paper leaves open
//
//   - Scales. Features are standardised by their mean and variance, first of the
//     recorded runs, then kept up to date. So is the reward: a shift and a scale
//     change no preference, and the models then start near the truth. The scales
//     remember about a day of polls, so that a cluster may change. A measurement more
//     than five standard deviations off the mean counts as five; after ten of those in
//     a row the next is taken as it is. One that is absurd does not hide what all others
//     say. A poll's measurements are in the scales before the step is made, and both
//     states of the step are standardised by these.
//   - Steps. A step is divided by the square of the state's length, the decay of the
//     weights is not. With that and values cut to what rewards can add up to,
//     weights stay bounded whatever is measured (TestWeightsStayFinite).
//   - Epsilon stays at 0.2, as in the paper's experiments. HalfLife makes it fall,
//     which the paper leaves to future work. A random action in every fifth poll
//     means a run every ten minutes, even if no run ever pays. With Even, which is
//     the default, a poll that waits has a tenth of Epsilon, as it lasts a tenth of
//     one that runs. 'gleaner reproduce curator-learning' shows both.
//   - A poll and the five minutes after a run both count as one step, as in the
//     paper's equation 2.
//   - Time of day, which the paper proposes, is one point on a circle: a sine and a
//     cosine, so that 23:59 is close to 0:00.
//
// # When it does worse than the thresholds
//
// With Safety, learning has to show that it pays. Time is cut into periods of half
// an hour; in a quarter of them, drawn at random, the thresholds decide. Both see
// the same cluster in the same hours, which a comparison with last week would not.
// The first ten minutes of a period do not count, for they show what the period
// before left behind. If the last eight periods of learning have a mean latency more
// than 2% above that of the last eight of the thresholds, and the difference is
// more than three standard errors, the thresholds decide for a day. Learning goes on
// meanwhile, as Q-learning may from the decisions of others, and then tries again.
package learn
