#pragma once
// What actors send each other, besides numbers and strings. Big things travel by pointer; none of it leaves the
// process.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/type_id.hpp>
#include <nlohmann/json.hpp>

#include "models/decoder.hpp"
#include "runtime/evaluation.hpp"
#include "runtime/gatekeeper.hpp"
#include "runtime/http_server.hpp"
#include "runtime/live/interactions.hpp"
#include "runtime/metrics.hpp"
#include "runtime/preference.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

// A turn to be sampled: everything said so far, as tokens.
enum class Answerer {
  newest,     // the policy as it was published last
  good,       // the last good one, where the newest is a canary
  reference,  // the one that was loaded: it never learns
};
struct TurnRequest {
  Tokens prompt;
  Sampling sampling;
  bool stream = false;     // the asker gets the tokens as they are sampled, too, as TurnTokens
  std::size_t choice = 0;  // which of the asker's turns it is
  Answerer by = Answerer::newest;
  double served_since = 0;  // when an application asked for it, seconds of steady_now(); 0: a training turn
};
struct TurnTokens {
  std::size_t choice = 0;
  SampledTokens sampled;
};
using TurnReply = expected<FinishedTurn>;

struct ScoreRequest {
  std::string answer;
  std::string expected_answer;
  std::string task;  // the user's words
  double begun = 0;  // when its session began, Unix seconds; 0 = now
};
using ScoreReply = expected<Score>;

// The reward spec in force.
struct SpecInfo {
  std::uint64_t version = 0;
  std::string name;
  nlohmann::json document;
  nlohmann::json pending;  // what a schedule or a ramp is up to: {"name", "next_at", "stage", "stages"}; null = nothing
};

// A shift: `spec` is a spec document or the name of one in the reward directory.
struct SpecChange {
  nlohmann::json spec;
  std::uint64_t if_match = 0;            // the version it was made for; 0 = any
  std::optional<std::uint64_t> restore;  // instead of `spec`: the spec of this version again; 0 = the one before
  std::string who;
  std::string why;
  InFlight in_flight = InFlight::keep;
  double after_s = 0;  // seconds until it begins
  double ramp_s = 0;   // seconds over which the weights go from the old spec's parts to the new one's
};
enum class SpecFault { invalid, conflict, failed };
struct SpecReply {
  SpecInfo info;      // after the change, or as it still is
  std::string error;  // empty = changed
  SpecFault fault = SpecFault::invalid;
};

// What the gatekeeper is told of a shift.
struct SpecShift {
  SpecPtr spec;
  std::uint64_t version = 0;
  InFlight in_flight = InFlight::keep;
  double at = 0;  // Unix seconds
};

// A session that has ended, with its outcome: `queued`, or why its trajectory cannot be trained.
using FinishedSession = Submission;

// A trajectory with what the critic says of it, on its way to the policy learner.
struct ValuedTrajectory {
  TrajectoryPtr trajectory;
  std::vector<float> advantages;  // [tokens]
  double queue_seconds = 0;
  double value_seconds = 0;
};
struct ValuedPack {
  std::vector<ValuedTrajectory> trajectories;
  bool last = false;  // the batch is complete
};

// The critic's half of a step report.
struct ValueReport {
  double loss = 0;
  double gradient_norm = 0;
  double explained_variance = 0;
  double update_seconds = 0;
  bool policy_steps = false;  // the same batch goes to the policy, too
};

struct GateStatus {
  LedgerCounts counts;
  int capacity = 0;
  int running = 0;
  Version policy_version = 0;
  std::string state;         // running, paused, draining, degraded
  std::string problem;       // why it is degraded
  CheckpointRow checkpoint;  // the newest one; no name: there is none
  CheckpointRow best;        // of those with its reward spec
};

// A learner's state for a checkpoint, and where it stands.
struct LearnerPart {
  LearnerImagePtr image;
  std::uint64_t number = 0;  // the policy's version; the critic's batch
  int warmup_left = 0;       // the critic's
};

// What the checkpointer is to do: write one of this step, or bring the learners back to one.
struct CheckpointOrder {
  bool restore = false;
  CheckpointRow row;       // to be written: policy_version and step are given
  Version resumed_as = 0;  // restored weights get this number
  std::size_t fork = 0;    // how often the lineage had forked by then
};
struct CheckpointDone {
  CheckpointOrder order;
  std::string error;  // empty = done
};
// What an operator gets who asked for a checkpoint or a rollback.
enum class CheckpointFault { unknown_version, refused, failed };
struct CheckpointReply {
  CheckpointRow row;
  Version policy_version = 0;  // in force now
  std::string error;           // empty = done
  CheckpointFault fault = CheckpointFault::failed;
};

struct TrajectoryQuery {
  std::string state;  // empty = all
  int limit = 20;
  TrajectoryId id = 0;  // one trajectory, when not 0
};

// Who asks for an answer, and what was said before.
struct Opening {
  std::string session_key;  // empty outside sessions
  std::string client;
  std::vector<Message> messages;  // of a chat
};
struct Opened {
  bool known = false;   // false: the session key is none
  std::string session;  // empty outside sessions
  Tokens prompt;        // of a conversation that goes on, else empty: its messages are encoded anew
};

// A call of /rl/*.
struct SessionCall {
  enum class Kind { start, reward, end } kind = Kind::start;
  std::string key;
  std::string task;
  Feedback feedback;
};

// One HTTP request on its way through the gateway.
struct HttpExchange {
  HttpRequest request;
  HttpReply reply;
};

}  // namespace millrace

// Which of these may be sent. Within the process CAF passes them by pointer and copies only what is shared and written.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::TurnRequest)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::TurnTokens)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::TurnReply)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::ScoreRequest)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::ScoreReply)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::SpecInfo)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::SpecChange)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::SpecReply)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::SpecShift)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::FinishedSession)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::Taken)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::ValuedPack)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::ValueReport)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::StepReport)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::Evaluation)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::GateStatus)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::GateMode)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::LearnerPart)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::CheckpointOrder)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::CheckpointDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::CheckpointReply)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::StoredCheckpointPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::vector<std::string>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::TrajectoryQuery)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::Opening)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::Opened)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::Interaction)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::Feedback)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::LiveAnswer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::SessionCall)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::HttpExchange)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::SnapshotPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(nlohmann::json)

// Verbs, at most ten characters each.
CAF_ADD_ATOM(millrace, millrace, permit_atom, "permit")
CAF_ADD_ATOM(millrace, millrace, submit_atom, "submit")
CAF_ADD_ATOM(millrace, millrace, take_atom, "take")
CAF_ADD_ATOM(millrace, millrace, published_atom, "published")
CAF_ADD_ATOM(millrace, millrace, skipped_atom, "skipped")
CAF_ADD_ATOM(millrace, millrace, status_atom, "status")
CAF_ADD_ATOM(millrace, millrace, list_atom, "list")
CAF_ADD_ATOM(millrace, millrace, generate_atom, "generate")
CAF_ADD_ATOM(millrace, millrace, weights_atom, "weights")
CAF_ADD_ATOM(millrace, millrace, step_atom, "step")
CAF_ADD_ATOM(millrace, millrace, score_atom, "score")
CAF_ADD_ATOM(millrace, millrace, learn_atom, "learn")
CAF_ADD_ATOM(millrace, millrace, evaluate_atom, "evaluate")
CAF_ADD_ATOM(millrace, millrace, spec_atom, "spec")
CAF_ADD_ATOM(millrace, millrace, history_atom, "history")
CAF_ADD_ATOM(millrace, millrace, start_atom, "start")
CAF_ADD_ATOM(millrace, millrace, expire_atom, "expire")
CAF_ADD_ATOM(millrace, millrace, http_atom, "http")
CAF_ADD_ATOM(millrace, millrace, mode_atom, "mode")
CAF_ADD_ATOM(millrace, millrace, drain_atom, "drain")
CAF_ADD_ATOM(millrace, millrace, order_atom, "order")
CAF_ADD_ATOM(millrace, millrace, held_atom, "held")
CAF_ADD_ATOM(millrace, millrace, done_atom, "done")
CAF_ADD_ATOM(millrace, millrace, save_atom, "save")
CAF_ADD_ATOM(millrace, millrace, restore_atom, "restore")
CAF_ADD_ATOM(millrace, millrace, checkpoint_atom, "checkpoint")
CAF_ADD_ATOM(millrace, millrace, rollback_atom, "rollback")
CAF_ADD_ATOM(millrace, millrace, guard_atom, "guard")
CAF_ADD_ATOM(millrace, millrace, good_atom, "good")
CAF_ADD_ATOM(millrace, millrace, tokens_atom, "tokens")
CAF_ADD_ATOM(millrace, millrace, gone_atom, "gone")
CAF_ADD_ATOM(millrace, millrace, live_atom, "live")
CAF_ADD_ATOM(millrace, millrace, open_atom, "open")
CAF_ADD_ATOM(millrace, millrace, store_atom, "store")
CAF_ADD_ATOM(millrace, millrace, feedback_atom, "feedback")
CAF_ADD_ATOM(millrace, millrace, session_atom, "session")
CAF_ADD_ATOM(millrace, millrace, forget_atom, "forget")
CAF_ADD_ATOM(millrace, millrace, restart_atom, "restart")
CAF_ADD_ATOM(millrace, millrace, recover_atom, "recover")
CAF_ADD_ATOM(millrace, millrace, beat_atom, "beat")
CAF_ADD_ATOM(millrace, millrace, commit_atom, "commit")
