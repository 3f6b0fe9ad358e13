#include "runtime/piped_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

extern char** environ;

namespace millrace {
namespace {

class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds))) {}
  int left_ms() const {
    const double left = std::chrono::duration<double, std::milli>(end_ - clock::now()).count();
    return static_cast<int>(std::clamp(std::ceil(left), 0.0, 1e9));
  }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point end_;
};

// Whether the descriptor is ready before the deadline.
bool wait_for(int descriptor, short events, const Deadline& deadline) {
  while (true) {
    pollfd entry{descriptor, events, 0};
    const int ready = ::poll(&entry, 1, deadline.left_ms());
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

struct Pipe {
  int read = -1;
  int write = -1;
};

bool make_pipe(Pipe& made) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  made = {ends[0], ends[1]};
  return true;
}

// What the program reads is a socket: to write to one that is closed is an error there and no signal.
bool make_socket(Pipe& made) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  made = {ends[0], ends[1]};
  return true;
}

void close_both(const Pipe& made) {
  ::close(made.read);
  ::close(made.write);
}

}  // namespace

expected<PipedProcess> PipedProcess::start(const std::vector<std::string>& command) {
  if (command.empty()) return fail("no command was given");
  Pipe in, out;
  if (!make_socket(in)) return fail(command[0] + ": " + std::strerror(errno));
  if (!make_pipe(out)) {
    close_both(in);
    return fail(command[0] + ": " + std::strerror(errno));
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out.write, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);  // the service blocks some
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t process = -1;
  const int code = ::posix_spawnp(&process, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  ::close(in.read);
  ::close(out.write);
  if (code != 0) {
    ::close(in.write);
    ::close(out.read);
    return fail(command[0] + " cannot be started: " + std::strerror(code));
  }
  ::fcntl(in.write, F_SETFL, O_NONBLOCK);
  ::fcntl(out.read, F_SETFL, O_NONBLOCK);
  return PipedProcess(process, in.write, out.read);
}

PipedProcess::PipedProcess(PipedProcess&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)),
      unread_(std::move(other.unread_)) {}

PipedProcess& PipedProcess::operator=(PipedProcess&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(input_, other.input_);
  std::swap(output_, other.output_);
  std::swap(unread_, other.unread_);
  return *this;
}

PipedProcess::~PipedProcess() { end(); }

expected<void> PipedProcess::write(std::string_view text, double timeout_s) {
  const Deadline deadline(timeout_s);
  while (!text.empty()) {
    if (!wait_for(input_, POLLOUT, deadline)) return fail("timeout: it does not read what it is sent");
    const ssize_t count = ::send(input_, text.data(), text.size(), MSG_NOSIGNAL);
    if (count > 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (count < 0 && errno != EAGAIN && errno != EINTR) {
      return fail("it has ended");
    }
  }
  return {};
}

expected<std::string> PipedProcess::read_line(double timeout_s, std::size_t max_bytes) {
  const Deadline deadline(timeout_s);
  while (true) {
    if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > max_bytes) return fail("its line is longer than " + std::to_string(max_bytes) + " bytes");
    if (!wait_for(output_, POLLIN, deadline)) return fail("timeout: no answer in time");
    char part[65536];
    const ssize_t count = ::read(output_, part, sizeof part);
    if (count > 0) {
      unread_.append(part, static_cast<std::size_t>(count));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      return fail("it has ended");
    }
  }
}

PipedProcess::Output PipedProcess::finish(double timeout_s, std::size_t max_bytes) {
  const Deadline deadline(timeout_s);
  close_input();
  Output result;
  result.text = std::exchange(unread_, {});
  while (true) {
    if (!wait_for(output_, POLLIN, deadline)) {
      result.timed_out = true;
      break;
    }
    char part[65536];
    const ssize_t count = ::read(output_, part, sizeof part);
    if (count > 0) {
      result.text.append(part, static_cast<std::size_t>(count));
      if (result.text.size() <= max_bytes) continue;
      result.text.resize(max_bytes);
      result.cut = true;
      break;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  if (!result.timed_out && !result.cut) {  // its output is closed; it may still take its time to end
    while (reap(false) == -1) {
      if (deadline.left_ms() == 0) {
        result.timed_out = true;
        break;
      }
      ::usleep(1000);
    }
  }
  const bool killed = result.timed_out || result.cut;
  if (killed) ::kill(-process_, SIGKILL);
  result.exit_code = killed ? (reap(true), 128 + SIGKILL) : exit_code_;
  return result;
}

void PipedProcess::close_input() {
  if (input_ >= 0) ::close(std::exchange(input_, -1));
}

int PipedProcess::reap(bool wait) {
  if (process_ < 0) return exit_code_;
  int status = 0;
  pid_t done = 0;
  do {
    done = ::waitpid(process_, &status, wait ? 0 : WNOHANG);
  } while (done < 0 && errno == EINTR);
  if (done == 0) return -1;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ::kill(-process_, SIGKILL);  // what it left behind
  process_ = -1;
  return exit_code_;
}

void PipedProcess::end() {
  close_input();
  if (output_ >= 0) ::close(std::exchange(output_, -1));
  if (process_ < 0) return;
  ::kill(-process_, SIGKILL);
  reap(true);
}

}  // namespace millrace
