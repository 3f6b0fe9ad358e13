#pragma once
// Mailboxes have no limit in CAF: each actor says, whenever it handles a message, how many more wait for it.
#include "runtime/metrics.hpp"

namespace millrace {

template <class Self>
void report_mailbox(Self self, Metrics& metrics) {
  metrics.mailbox(self->state.name, self->mailbox().size());
}

}  // namespace millrace
