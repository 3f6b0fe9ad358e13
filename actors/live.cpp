#include "actors/live.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "actors/exceptions.hpp"
#include "runtime/clock.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = LiveActor::stateful_pointer<LiveState>;

// The disk said no: the caller may try again, nothing has changed.
LiveAnswer answer_or_fault(expected<LiveAnswer> answer) {
  if (answer) return std::move(*answer);
  log_error("live", answer.error().message);
  return {503, {}, "the state directory cannot be written: try again", ""};
}

template <class T>
bool good(const expected<T>& result) {
  if (!result) log_error("live", result.error().message);
  return result.has_value();
}

void teach(Self self, const GatekeeperActor& gatekeeper, Metrics* metrics);

FinishedSession finished_of(const Lesson& lesson) {
  FinishedSession finished;
  finished.trajectory = make_trajectory(lesson.run, unix_now());
  finished.reason = finished.trajectory.invalid;
  finished.outcome = finished.reason.empty() ? Outcome::queued : Outcome::invalid;
  return finished;
}

FinishedSession without_lesson() {  // its permit goes back
  FinishedSession finished;
  finished.trajectory.environment = live_environment;
  finished.outcome = Outcome::aborted;
  finished.reason = "the lesson was withdrawn";
  return finished;
}

// Only when the ledger has a lesson is it forgotten here.
void confirm(Self self, const GatekeeperActor& gatekeeper, Metrics* metrics, const Lesson& lesson) {
  TrajectoryQuery query;
  query.id = lesson.trajectory;
  self->request(gatekeeper, std::chrono::seconds(60), list_atom_v, query)
      .then(
          [=, number = lesson.number](const nlohmann::json& row) {
            good(row.is_null() ? self->state.interactions->unassign(number)
                               : self->state.interactions->confirm(number));
            teach(self, gatekeeper, metrics);
          },
          [](const caf::error& error) { log_error("live", "no word from the gatekeeper: " + caf::to_string(error)); });
}

// Lessons with their permits go to the ledger, all that came together in one transaction.
void submit(Self self, const GatekeeperActor& gatekeeper, Metrics* metrics) {
  const std::vector<TrajectoryId> permits = std::exchange(self->state.permits, {});
  self->state.asking -= static_cast<std::int64_t>(permits.size());
  auto lessons = self->state.interactions->assign(permits);
  if (!good(lessons)) lessons.emplace();
  for (std::size_t i = 0; i < permits.size(); ++i) {
    FinishedSession finished = i < lessons->size() ? finished_of((*lessons)[i]) : without_lesson();
    finished.trajectory.id = permits[i];
    self->send(gatekeeper, submit_atom_v, std::move(finished));
  }
  for (const Lesson& lesson : *lessons) confirm(self, gatekeeper, metrics, lesson);
}

// Asks for permits while lessons wait, for a batch of them at a time: permits come when a step is over, many at once.
void teach(Self self, const GatekeeperActor& gatekeeper, Metrics* metrics) {
  auto& state = self->state;
  const auto waiting = state.interactions->waiting_lessons();
  if (!good(waiting)) return;
  metrics->live_lessons(static_cast<std::size_t>(*waiting));
  for (; state.asking < std::min<std::int64_t>(*waiting, state.batch); ++state.asking) {
    self->request(gatekeeper, caf::infinite, permit_atom_v, live_atom_v)
        .then(
            [self](TrajectoryId id) {
              if (self->state.permits.empty()) self->send(self, permit_atom_v);
              self->state.permits.push_back(id);
            },
            [self](const caf::error&) { --self->state.asking; });
  }
}

// What a former process had under way: the ledger knows which of it came through.
void recover(Self self, const GatekeeperActor& gatekeeper, Metrics* metrics) {
  const auto assigned = self->state.interactions->assigned();
  if (!good(assigned)) return;
  for (const Interactions::Assigned& entry : *assigned) {
    TrajectoryQuery query;
    query.id = entry.trajectory;
    self->request(gatekeeper, std::chrono::seconds(60), list_atom_v, query)
        .then(
            [=](const nlohmann::json& row) {
              const bool there = !row.is_null() && row.value("environment", "") == live_environment &&
                                 std::abs(row.value("created", 0.0) - entry.created) < 1e-6;
              Interactions& interactions = *self->state.interactions;
              good(there ? interactions.confirm(entry.lesson) : interactions.unassign(entry.lesson));
              teach(self, gatekeeper, metrics);
            },
            [](const caf::error& error) {
              log_error("live", "no word from the gatekeeper: " + caf::to_string(error));
            });
  }
}

// The ratings decide on the newest policy.
void heed_canary(Self self, const LiveSetup& setup, bool newest, double reward) {
  if (self->state.going_back) return;
  Canary& canary = *self->state.canary;
  const Canary::Verdict verdict = canary.rated(newest, reward);
  if (verdict == Canary::Verdict::wait) return;
  const bool good = verdict == Canary::Verdict::good;
  setup.metrics->canary(good);
  log_info("live", std::string("the newest policy is ") + (good ? "the good one now: " : "bad: ") + canary.words());
  if (good) return self->send(setup.generator, good_atom_v);
  if (setup.settings.live.canary_action != "rollback") return;
  self->state.going_back = true;
  const auto version = static_cast<Version>(setup.activity->good_version);
  self->request(setup.gatekeeper, caf::infinite, rollback_atom_v, guard_atom_v, version)
      .then(
          [self](const CheckpointReply& reply) {
            self->state.going_back = false;
            if (!reply.error.empty()) log_warning("live", "no rollback: " + reply.error);
          },
          [self](const caf::error& error) {
            self->state.going_back = false;
            log_warning("live", "no rollback: " + caf::to_string(error));
          });
}

// The exact tokens of a conversation that goes on: what the policy sampled is never made again from its text.
Opened open(LiveState& state, const Tokenizer& tokenizer, const Opening& opening) {
  Opened opened;
  if (!opening.session_key.empty()) {
    const auto session = state.interactions->session_of(opening.session_key, unix_now());
    if (!good(session) || !*session) return opened;
    opened.session = **session;
  }
  opened.known = true;
  const auto& messages = opening.messages;
  if (messages.size() < 2 || messages[messages.size() - 2].role != "assistant") return opened;
  const std::string& owner = opened.session.empty() ? opening.client : opened.session;
  const auto last = state.interactions->find_dialogue(dialogue_key(owner, {messages.begin(), messages.end() - 1}));
  if (!last) return opened;
  const expected<Tokens> next = encode_observation(tokenizer, messages.back(), last->ended);
  if (!next) return opened;
  opened.prompt = last->prompt;
  opened.prompt.insert(opened.prompt.end(), last->sampled.tokens.begin(), last->sampled.tokens.end());
  opened.prompt.insert(opened.prompt.end(), next->begin(), next->end());
  return opened;
}

// /rl/start_session, set_reward, end_session.
LiveAnswer session_call(LiveState& state, const SessionCall& call, int batch) {
  Interactions& interactions = *state.interactions;
  const double now = unix_now();
  if (call.kind == SessionCall::Kind::start) {
    const auto waiting = interactions.waiting_lessons();
    if (good(waiting) && *waiting >= batch) {
      return {429, {}, "a whole batch of rewarded sessions already waits for the learner: try again later", ""};
    }
    return answer_or_fault(interactions.start_session(call.task, call.key, now));
  }
  const auto session = interactions.session_of(call.key, now);
  if (!good(session)) return {503, {}, "the state directory cannot be written: try again", ""};
  if (!*session) return {401, {}, "the key is not that of an open session", "Authorization"};
  return answer_or_fault(call.kind == SessionCall::Kind::reward ? interactions.set_reward(**session, call.feedback, now)
                                                                : interactions.end_session(**session, now));
}

}  // namespace

const char* LiveState::name = "live";

LiveActor::behavior_type live(Self self, std::shared_ptr<const LiveSetup> setup) {
  die_of_exceptions(self, LiveState::name);
  self->state.interactions = setup->interactions;
  self->state.canary.emplace(setup->settings.live);
  self->state.batch = setup->settings.batch;
  const GatekeeperActor gatekeeper = setup->gatekeeper;
  Metrics* const metrics = setup->metrics;
  return {
      [=](start_atom) {
        recover(self, gatekeeper, metrics);
        teach(self, gatekeeper, metrics);
        self->delayed_send(self, std::chrono::seconds(1), expire_atom_v);
      },
      [=](open_atom, const Opening& opening) {
        if (opening.session_key.empty()) {
          const auto rated = self->state.interactions->asked(opening.client, opening.messages, unix_now());
          if (good(rated) && *rated > 0) teach(self, gatekeeper, metrics);
        }
        return open(self->state, *setup->tokenizer, opening);
      },
      [=](permit_atom) { submit(self, gatekeeper, metrics); },
      [self](store_atom, const Interaction& interaction) { good(self->state.interactions->record(interaction)); },
      [=](feedback_atom, const Feedback& feedback) {
        LiveAnswer answer = answer_or_fault(self->state.interactions->feedback(feedback, unix_now()));
        metrics->feedback(answer.status);
        teach(self, gatekeeper, metrics);
        if (answer.rated_newest && setup->settings.live.canary_share < 1)
          heed_canary(self, *setup, *answer.rated_newest, feedback.reward);
        return answer;
      },
      [=](session_atom, const SessionCall& call) {
        LiveAnswer answer = session_call(self->state, call, setup->settings.batch);
        teach(self, gatekeeper, metrics);
        return answer;
      },
      [self](guard_atom) { self->state.canary->begin_anew(); },
      [=](forget_atom, const std::string& client) {
        auto promise = self->make_response_promise<LiveAnswer>();
        const auto report = self->state.interactions->forget(client);
        if (!good(report)) {
          promise.deliver(LiveAnswer{503, {}, "the state directory cannot be written: try again", ""});
          return promise;
        }
        self->request(gatekeeper, std::chrono::seconds(30), forget_atom_v, report->at("trajectories"))
            .then(
                [promise, report = *report](const nlohmann::json& rows) mutable {
                  report["trajectories"] = rows;
                  promise.deliver(LiveAnswer{200, std::move(report), "", ""});
                },
                [promise](const caf::error&) mutable {
                  promise.deliver(LiveAnswer{503, {}, "the ledger did not answer: try again", ""});
                });
        return promise;
      },
      [=](expire_atom) {
        good(self->state.interactions->expire(unix_now()));
        good(self->state.interactions->prune(unix_now() - setup->settings.state.keep_days * 86400));
        teach(self, gatekeeper, metrics);
        self->delayed_send(self, std::chrono::seconds(1), expire_atom_v);
      },
  };
}

}  // namespace millrace
