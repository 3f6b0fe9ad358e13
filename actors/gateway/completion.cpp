#include "actors/gateway/completion.hpp"

#include "actors/exceptions.hpp"
#include "runtime/clock.hpp"

namespace millrace {

namespace {

using Self = CompletionSelf;
using SetupPtr = std::shared_ptr<const CompletionSetup>;

HttpResponse head_of(const Completion& completion) {
  HttpResponse head;
  head.headers["x-millrace-policy-version"] = std::to_string(completion.first_version());
  if (const std::string receipt = completion.receipt(0); !receipt.empty()) {
    head.headers["x-millrace-interaction-id"] = receipt;
  }
  return head;
}

// A stream begins with its first token, whose version goes into its head.
void send_messages(Self self, const HttpExchange& exchange, const std::string& messages) {
  auto& state = self->state;
  if (messages.empty()) return;
  if (!state.stream) {
    state.stream = std::make_shared<HttpStream>();
    HttpResponse response = head_of(*state.completion);
    response.content_type = "text/event-stream";
    response.headers["Cache-Control"] = "no-cache";
    response.headers["X-Accel-Buffering"] = "no";
    response.stream = state.stream;
    exchange.reply(std::move(response));
  }
  state.stream->write(messages);
}

// The answer is remembered before its client can send feedback on it.
void remember(Self self, const SetupPtr& setup, std::size_t choice, const FinishedTurn& turn) {
  const auto& state = self->state;
  if (state.completion->receipt(choice).empty()) return;
  Interaction interaction = state.completion->interaction(choice, turn);
  interaction.client = setup->client;
  interaction.session = state.session;
  interaction.newest = setup->by == Answerer::newest;
  interaction.created = state.created;
  interaction.seconds = unix_now() - state.created;
  const std::string& owner = state.session.empty() ? setup->client : state.session;
  interaction.dialogue = state.completion->dialogue(owner, choice);
  if (state.completion->request().chat)
    interaction.question = dialogue_key(owner, state.completion->request().messages);
  setup->redaction->apply(interaction, state.completion->request().messages);
  self->send(setup->live, store_atom_v, std::move(interaction));
}

void finish_choice(Self self, const SetupPtr& setup, std::size_t choice, const FinishedTurn& turn) {
  Completion& completion = *self->state.completion;
  const std::string messages = completion.finish(choice, turn);
  remember(self, setup, choice, turn);
  if (completion.request().stream) {
    send_messages(self, setup->exchange, messages);
  } else if (completion.complete()) {
    HttpResponse response = json_response(completion.body());
    response.headers.merge(head_of(completion).headers);
    setup->exchange.reply(std::move(response));
  }
  if (completion.complete()) self->quit();
}

// A stream that has begun can only break off; its missing [DONE] says so.
void give_up(Self self, const SetupPtr& setup, HttpResponse response) {
  if (!self->state.stream) setup->exchange.reply(std::move(response));
  self->quit();
}

auto unavailable(Self self, const SetupPtr& setup) {
  return [self, setup](const caf::error& error) {
    give_up(self, setup, http_error(503, "no answer inside the service: " + caf::to_string(error), "server_error"));
  };
}

void ask_for_turns(Self self, const SetupPtr& setup) {
  const Completion& asked = *self->state.completion;
  for (std::size_t choice = 0; choice < asked.choices(); ++choice) {
    self->request(setup->generator, caf::infinite, generate_atom_v,
                  TurnRequest{asked.prompt(choice), asked.sampling(choice), asked.request().stream, choice, setup->by,
                              self->state.asked})
        .then(
            [self, setup, choice](const TurnReply& reply) {
              if (reply) return finish_choice(self, setup, choice, *reply);
              const char* param = self->state.completion->request().chat ? "messages" : "prompt";
              give_up(self, setup, http_error(400, reply.error().message, "invalid_request_error", param));
            },
            unavailable(self, setup));
  }
}

// First whose conversation it is and in which tokens it was held so far.
void open(Self self, const SetupPtr& setup) {
  if (!setup->remember && setup->session_key.empty()) return ask_for_turns(self, setup);
  Opening opening{setup->session_key, setup->client, self->state.completion->request().messages};
  self->request(setup->live, std::chrono::seconds(30), open_atom_v, std::move(opening))
      .then(
          [self, setup](const Opened& opened) {
            if (!opened.known) {
              return give_up(
                  self, setup,
                  http_error(401, "the key is not that of an open session", "authentication_error", "Authorization"));
            }
            self->state.session = opened.session;
            if (!opened.prompt.empty()) self->state.completion->go_on_from(opened.prompt);
            ask_for_turns(self, setup);
          },
          unavailable(self, setup));
}

}  // namespace

const char* CompletionState::name = "completion";

CompletionActor::behavior_type completion(Self self, std::shared_ptr<Completion> work, SetupPtr setup) {
  die_of_exceptions(self, CompletionState::name);
  self->monitor(setup->gateway);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  self->state.completion = std::move(work);
  self->state.created = unix_now();
  self->state.asked = steady_now();
  return {
      [self, setup](start_atom) { open(self, setup); },
      [self, setup](tokens_atom, const TurnTokens& tokens) {
        send_messages(self, setup->exchange, self->state.completion->add(tokens.choice, tokens.sampled));
      },
      [self](gone_atom) { self->quit(); },
  };
}

}  // namespace millrace
