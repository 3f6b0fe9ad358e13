#pragma once
// The map of the service: every actor's interface, one comment a clause. Read it from top to bottom and you have
// followed a trajectory from its permit to its gradient step.
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/protocol/messages.hpp"

namespace millrace {

// Whoever lets sessions begin and takes what they bring: the gatekeeper, or the evaluator for those of its own.
using PermitsActor = caf::typed_actor<
    // A session's first permit, or whose it is beside sessions; answered with a trajectory id when there is one.
    caf::replies_to<permit_atom>::with<TrajectoryId>,
    // Brings a finished session's trajectory and gives its permit back.
    caf::reacts_to<submit_atom, FinishedSession>,
    // The same, and asks for the next permit: before all that ask for their first.
    caf::replies_to<submit_atom, permit_atom, FinishedSession>::with<TrajectoryId>>;

// Grants permits, keeps the ledger, judges lag, and says what becomes of every trajectory.
using GatekeeperActor = caf::typed_actor<
    // As PermitsActor: a permit as soon as the gate has room.
    caf::replies_to<permit_atom>::with<TrajectoryId>, caf::reacts_to<submit_atom, FinishedSession>,
    caf::replies_to<submit_atom, permit_atom, FinishedSession>::with<TrajectoryId>,
    // A permit for rewarded live traffic: before all who wait.
    caf::replies_to<permit_atom, live_atom>::with<TrajectoryId>,
    // A message to itself: what has been brought since is made durable, in one commit.
    caf::reacts_to<commit_atom>,
    // The learner's credit: up to so many trajectories of the open step; answered as soon as there are any.
    caf::replies_to<take_atom, int>::with<Taken>,
    // The open step is published as this version.
    caf::reacts_to<published_atom, Version>,
    // The open step made no version, for this reason.
    caf::reacts_to<skipped_atom, std::string>,
    // Counts, capacity and version.
    caf::replies_to<status_atom>::with<GateStatus>,
    // The reward spec was replaced; what is in flight is kept, scored again or dropped.
    caf::reacts_to<spec_atom, SpecShift>,
    // Rows of the ledger, as JSON.
    caf::replies_to<list_atom, TrajectoryQuery>::with<nlohmann::json>,
    // Opens, pauses or drains the gate.
    caf::replies_to<mode_atom, GateMode>::with<GateStatus>,
    // Answered when a draining gate has no session and no step left, and what was learned is in a checkpoint; true: all
    // of it is.
    caf::replies_to<drain_atom>::with<bool>,
    // An operator wants a checkpoint; answered when it is finished.
    caf::replies_to<checkpoint_atom>::with<CheckpointReply>,
    // Back to the checkpoint with this policy version, under a new number.
    caf::replies_to<rollback_atom, Version>::with<CheckpointReply>,
    // The guard's: back to the newest checkpoint that is no newer than this version.
    caf::replies_to<rollback_atom, guard_atom, Version>::with<CheckpointReply>,
    // The learners have died: the newest checkpoint and the number under which its policy goes on; no name = the policy
    // as it was loaded.
    caf::replies_to<recover_atom>::with<CheckpointReply>,
    // The checkpointer's credit: answered when there is something to do; the open step is not completed from then on.
    caf::replies_to<order_atom>::with<CheckpointOrder>,
    // It has both learners' images: the open step may be completed.
    caf::reacts_to<held_atom>,
    // It has done, or could not. Answered with the names of the checkpoints that stay.
    caf::replies_to<done_atom, CheckpointDone>::with<std::vector<std::string>>,
    // Drops those of these trajectories (ids) that wait, and deletes words and tokens of those that need them no more;
    // answered with what they are.
    caf::replies_to<forget_atom, nlohmann::json>::with<nlohmann::json>,
    // A timer of its own: min_batch may suffice now.
    caf::reacts_to<expire_atom>>;

// Keeps as many sessions alive as there are permits for.
using SessionHostActor = caf::typed_actor<
    // Begins: the first session asks for its first permit.
    caf::reacts_to<start_atom>,
    // A session has its first permit: the next one comes in and asks.
    caf::reacts_to<permit_atom>,
    // A timer of its own: sessions beyond their deadline are ended, those that hang are left.
    caf::reacts_to<expire_atom>>;

// Sessions, one after another: environment, turns, score. Each ends with a submitted trajectory, whatever happens.
using SessionActor = caf::typed_actor<
    // Asks for its first permit; the host that sends this hears when it has come.
    caf::reacts_to<start_atom>,
    // The time of this session is over: it is submitted as expired, and its actor ends.
    caf::reacts_to<expire_atom, TrajectoryId>>;

// Lets the policy write on tasks it is not trained on.
using EvaluatorActor = caf::typed_actor<
    // As PermitsActor: a permit for each task of an evaluation.
    caf::replies_to<permit_atom>::with<TrajectoryId>, caf::reacts_to<submit_atom, FinishedSession>,
    caf::replies_to<submit_atom, permit_atom, FinishedSession>::with<TrajectoryId>,
    // Evaluates the policy, of which this version has just been published; answered when all tasks are done.
    caf::replies_to<evaluate_atom, Version>::with<Evaluation>>;

// Samples all live turns together, one token a step.
using GeneratorActor = caf::typed_actor<
    // Samples a turn; answered when it has ended. If the asker dies first, the turn is dropped. On request the asker
    // gets its tokens as they come, as (tokens, TurnTokens).
    caf::replies_to<generate_atom, TurnRequest>::with<TurnReply>,
    // New weights, taken between two decode steps.
    caf::reacts_to<weights_atom, SnapshotPtr>,
    // The newest weights are the last good ones from now on.
    caf::reacts_to<good_atom>,
    // A message to itself: the next decode step.
    caf::reacts_to<step_atom>>;

// Scores answers under the reward spec in force.
using ScorerActor = caf::typed_actor<
    // The score of one answer, all parts of it under one version of the spec.
    caf::replies_to<score_atom, ScoreRequest>::with<ScoreReply>,
    // What remote scorers say to the question with this number; from a thread that asked them.
    caf::reacts_to<score_atom, std::uint64_t, ScoreReply>,
    // The spec in force.
    caf::replies_to<spec_atom>::with<SpecInfo>,
    // Replaces the spec as a whole, or not at all.
    caf::replies_to<spec_atom, SpecChange>::with<SpecReply>,
    // Every spec that was in force, oldest first, with who, when and why.
    caf::replies_to<history_atom>::with<nlohmann::json>,
    // A timer of its own: the next stage of the plan with this number.
    caf::reacts_to<expire_atom, std::uint64_t>>;

// The critic: pulls trajectories, values them on arrival, updates itself at the end of each batch.
using ValueLearnerActor = caf::typed_actor<
    // Begins to pull.
    caf::reacts_to<start_atom>,
    // Its state as it is now; its next step waits until the image is gone.
    caf::replies_to<save_atom>::with<LearnerPart>,
    // Takes a checkpoint's state and forgets the open batch; answered with what went wrong, empty = nothing.
    caf::replies_to<restore_atom, StoredCheckpointPtr>::with<std::string>>;

// The policy: adds up gradients on arrival, steps and publishes at the end of each batch.
using PolicyLearnerActor = caf::typed_actor<
    // Trajectories with their advantages; the last ones of a batch make the step.
    caf::reacts_to<learn_atom, ValuedPack>,
    // As the critic; the restored weights are published under this number.
    caf::replies_to<save_atom>::with<LearnerPart>,
    caf::replies_to<restore_atom, StoredCheckpointPtr, Version>::with<std::string>,
    // The guard went back: from now on steps are shorter by this factor.
    caf::reacts_to<guard_atom, double>>;

// Writes checkpoints beside everything else, and brings the learners back to one.
using CheckpointerActor = caf::typed_actor<
    // Begins to ask the gatekeeper for orders.
    caf::reacts_to<start_atom>,
    // At the start of the service: the learners go on from this checkpoint under this number.
    caf::replies_to<restore_atom, StoredCheckpointPtr, Version>::with<std::string>>;

// Joins the learners' reports of a step into one, shows it, and counts the steps.
using ObserverActor = caf::typed_actor<
    // The policy's half.
    caf::reacts_to<step_atom, StepReport>,
    // The critic's half.
    caf::reacts_to<step_atom, ValueReport>,
    // The learners begin anew: half a report that waits for its other half will never get it.
    caf::reacts_to<start_atom>,
    // The last complete report.
    caf::replies_to<status_atom>::with<StepReport>>;

// Remembers served answers until their feedback comes, and makes trajectories of them.
using LiveActor = caf::typed_actor<
    // Begins.
    caf::reacts_to<start_atom>,
    // A conversation goes on: whose it is, and the tokens it was said in.
    caf::replies_to<open_atom, Opening>::with<Opened>,
    // A served answer.
    caf::reacts_to<store_atom, Interaction>,
    // From itself: permits have come, and all that came together are used together.
    caf::reacts_to<permit_atom>,
    // A reward for one.
    caf::replies_to<feedback_atom, Feedback>::with<LiveAnswer>,
    // Sessions of clients: start, reward, end.
    caf::replies_to<session_atom, SessionCall>::with<LiveAnswer>,
    // The guard has told of a collapse: ratings so far do not speak for the newest policy.
    caf::reacts_to<guard_atom>,
    // What is kept of a client; it is deleted.
    caf::replies_to<forget_atom, std::string>::with<LiveAnswer>,
    // A timer of its own: some of it may have become too old.
    caf::reacts_to<expire_atom>>;

// One request to the OpenAI API: asks the generator for its choices and answers or streams them.
using CompletionActor = caf::typed_actor<
    // Begins.
    caf::reacts_to<start_atom>,
    // Tokens of a choice, as they are sampled.
    caf::reacts_to<tokens_atom, TurnTokens>,
    // Its caller has hung up: nobody needs the rest.
    caf::reacts_to<gone_atom>>;

// Turns HTTP requests into messages and their answers into JSON.
using GatewayActor = caf::typed_actor<caf::reacts_to<http_atom, HttpExchange>>;

}  // namespace millrace
