#include "actors/session.hpp"

#include <numeric>

#include "actors/exceptions.hpp"
#include "actors/generator.hpp"
#include "runtime/clock.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = SessionActor::stateful_pointer<SessionState>;

// Replicas have ids of their own each, and take turns in what is drawn by number.
std::uint64_t among_replicas(const Settings& settings, std::uint64_t number) {
  return number * static_cast<std::uint64_t>(settings.replicas.count) +
         static_cast<std::uint64_t>(settings.replicas.rank);
}

Sampling sampling_for(const Settings& settings, TrajectoryId id) {
  Sampling sampling;
  sampling.temperature = settings.generation.temperature;
  sampling.top_p = settings.generation.top_p;
  sampling.top_k = settings.generation.top_k;
  sampling.max_tokens = settings.generation.max_tokens;
  sampling.seed = settings.seed * 0x9E3779B97F4A7C15ULL + among_replicas(settings, id);
  return sampling;
}

// What the environment gave on the way counts, too, as a part of its own.
Score with_environment_reward(Score score, const Sequence& sequence) {
  const double given = std::accumulate(sequence.rewards.begin(), sequence.rewards.end(), 0.0);
  if (given == 0) return score;
  score.parts.push_back({"environment", given, 1.0});
  score.total += given;
  return score;
}

// What every session ends with.
FinishedSession finish(Self self, Ending ending, Outcome outcome, const std::string& reason, const Score& score = {}) {
  LiveSession& live = *self->state.live;
  FinishedSession finished;
  finished.trajectory = live.episode.finish(ending);
  finished.trajectory.id = live.id;
  finished.trajectory.created = live.created;
  finished.trajectory.seconds = live.seconds;
  finished.trajectory.score = with_environment_reward(score, finished.trajectory.sequence);
  if (outcome == Outcome::queued) {
    finished.trajectory.sequence.rewards.back() += static_cast<float>(score.total);
    if (!finished.trajectory.invalid.empty()) {
      outcome = Outcome::invalid;
      finished.reason = finished.trajectory.invalid;
    }
  } else {
    finished.reason = reason;
  }
  finished.outcome = outcome;
  self->state.live.reset();
  self->state.watch->ends();
  return finished;
}

void begin(Self self, TrajectoryId id);

// Whoever gave the permit learns what became of it; when there is another one, the next session begins.
void submit(Self self, Ending ending, Outcome outcome, const std::string& reason, const Score& score = {}) {
  self->request(self->state.setup->permits, caf::infinite, submit_atom_v, permit_atom_v,
                finish(self, ending, outcome, reason, score))
      .then([self](TrajectoryId next) { begin(self, next); }, [self](const caf::error& gone) { self->quit(gone); });
}

void ask_for_first_permit(Self self) {
  const auto host = caf::actor_cast<SessionHostActor>(self->current_sender());
  self->request(self->state.setup->permits, caf::infinite, permit_atom_v)
      .then(
          [self, host](TrajectoryId first) {
            self->send(host, permit_atom_v);
            begin(self, first);
          },
          [self](const caf::error& gone) { self->quit(gone); });
}

void fail_environment(Self self, const Error& error) {
  const std::string& environment = self->state.setup->settings.environment.name;
  log_warning("session", "environment " + environment + ": " + error.message);
  self->state.setup->metrics->environment_error(environment, "error");
  submit(self, Ending::failed, Outcome::env_failed, error.message);
}

void ask_for_score(Self self, Ending ending);
void ask_for_turn(Self self);

void begin(Self self, TrajectoryId id) {
  const SessionSetup& setup = *self->state.setup;
  const Settings& settings = setup.settings;
  self->state.watch->begins(id, self->clock().now());
  LiveSession& live = self->state.live.emplace(
      LiveSession{.id = id,
                  .environment = setup.make_environment(),
                  .episode = {*setup.tokenizer, settings.environment, settings.model.max_context},
                  .sampling = sampling_for(settings, id),
                  .created = unix_now()});
  // Members of a group get the same task. They sample with seeds of their own.
  const TrajectoryId group = group_of(id, settings.recipe.grouping.size);
  const expected<Task> task = live.environment->reset(settings.seed + among_replicas(settings, group));
  live.seconds.environment += live.lap();
  if (!task) return fail_environment(self, task.error());
  if (const auto begun = live.episode.begin(*task); !begun) return fail_environment(self, begun.error());
  ask_for_turn(self);
}

void answer_turn(Self self, const FinishedTurn& turn) {
  LiveSession& live = *self->state.live;
  live.seconds.generate += live.lap();
  const std::string action = live.episode.add_turn(turn, live.sampling);
  const expected<Observation> observation = live.environment->step(action);
  live.seconds.environment += live.lap();
  if (!observation) return fail_environment(self, observation.error());
  if (const auto observed = live.episode.observe(*observation); !observed) {
    return fail_environment(self, observed.error());
  }
  if (observation->over) return ask_for_score(self, observation->truncated ? Ending::truncated : Ending::terminated);
  if (!live.episode.has_room()) return ask_for_score(self, Ending::truncated);
  ask_for_turn(self);
}

void ask_for_turn(Self self) {
  const LiveSession& live = *self->state.live;
  self->request(self->state.setup->generator, caf::infinite, generate_atom_v,
                TurnRequest{live.episode.prompt(), live.sampling})
      .then(
          [self](const TurnReply& reply) {
            if (reply) return answer_turn(self, *reply);
            const bool died = reply.error().message == generator_died;
            submit(self, Ending::failed, died ? Outcome::aborted : Outcome::invalid, reply.error().message);
          },
          [self](const caf::error& error) {
            submit(self, Ending::failed, Outcome::aborted, "generator: " + caf::to_string(error));
          });
}

void ask_for_score(Self self, Ending ending) {
  LiveSession& live = *self->state.live;
  live.scoring = true;
  // A session that gets no score is ended by its deadline: no timer for each score is needed.
  self->request(self->state.setup->scorer, caf::infinite, score_atom_v,
                ScoreRequest{live.episode.answer(), live.episode.expected_answer(), live.episode.task(), live.created})
      .then(
          [self, ending](const ScoreReply& reply) {
            LiveSession& scored = *self->state.live;
            scored.seconds.score += scored.lap();
            if (!reply) return submit(self, ending, Outcome::score_failed, reply.error().message);
            submit(self, ending, Outcome::queued, "", *reply);
          },
          [self, ending](const caf::error& error) {
            submit(self, ending, Outcome::score_failed, "scorer: " + caf::to_string(error));
          });
}

}  // namespace

const char* SessionState::name = "session";

double LiveSession::lap() {
  const auto now = std::chrono::steady_clock::now();
  const double seconds_since = std::chrono::duration<double>(now - stage_started).count();
  stage_started = now;
  return seconds_since;
}

SessionActor::behavior_type session(Self self, std::shared_ptr<const SessionSetup> setup,
                                    std::shared_ptr<SessionWatch> watch) {
  die_of_exceptions(self, SessionState::name);
  self->state.setup = std::move(setup);
  self->state.watch = std::move(watch);
  return {
      [self](start_atom) { ask_for_first_permit(self); },
      [self](expire_atom, TrajectoryId id) {
        const auto& live = self->state.live;
        if (!live || live->id != id) return;  // it ended just before
        FinishedSession late = live->scoring
                                   ? finish(self, Ending::failed, Outcome::score_failed, "no score before the deadline")
                                   : finish(self, Ending::failed, Outcome::expired, "deadline");
        self->send(self->state.setup->permits, submit_atom_v, std::move(late));
        self->quit();  // there is no next session here: an answer may still be on its way to this one
      },
  };
}

}  // namespace millrace
