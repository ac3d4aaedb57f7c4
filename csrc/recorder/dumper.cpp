#include "recorder/dumper.h"

#include <signal.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/fork.h"
#include "base/futex.h"
#include "base/thread.h"
#include "recorder/dump.h"

namespace pycomms::recorder {
namespace {

std::array<struct sigaction, NSIG> handlers_before;

// What the signal would have done without us.
void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = handlers_before[static_cast<size_t>(signal)];
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else if (before.sa_handler == SIG_DFL) {
    struct sigaction standard{};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    raise(signal);  // comes when this handler has returned
  }
}

Status install(int signal, void (*handler)(int, siginfo_t*, void*)) {
  if (signal < 1 || signal >= NSIG) {
    return Status(Code::kInvalidArgument, "signal is " + std::to_string(signal) + ", expected 1 to 64");
  }
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  struct sigaction before{};
  if (sigaction(signal, nullptr, &before) != 0) {
    return Status::system("cannot handle signal " + std::to_string(signal));
  }
  // A forked child has its parent's handlers: ours is not what was there before.
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction == handler) return {};
  handlers_before[static_cast<size_t>(signal)] = before;
  if (sigaction(signal, &action, nullptr) != 0) {
    return Status::system("cannot handle signal " + std::to_string(signal));
  }
  return {};
}

}  // namespace

Dumper& Dumper::instance() { return per_process<Dumper>(); }

Dumper::Dumper() { sem_init(&requests_, 0, 0); }

void Dumper::set_up(std::string folder, int most, std::function<void(const std::string&)> after) {
  const std::lock_guard lock(mutex_);
  folder_ = std::move(folder);
  left_ = most;
  after_ = std::move(after);
}

Status Dumper::start() {
  const std::lock_guard lock(mutex_);
  stays_ = true;
  return start_thread_if_none();
}

Status Dumper::start_thread_if_none() {
  if (has_thread_) return {};
  auto thread = start_thread("pycomms-dumps", [this] { run(); });
  if (!thread.is_ok()) return thread.status();
  thread.take().detach();
  has_thread_ = true;
  return {};
}

void Dumper::request(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (folder_.empty() || is_stopped_) return;
  if (reason_.empty()) reason_ = reason;
  if (!start_thread_if_none().is_ok()) return;  // the ring is there all the same
  pending_.fetch_add(1, std::memory_order_acq_rel);
  sem_post(&requests_);
}

void Dumper::request_from_signal(int signal) {
  signal_.store(signal, std::memory_order_release);
  pending_.fetch_add(1, std::memory_order_acq_rel);
  sem_post(&requests_);
}

void Dumper::run() {
  for (;;) {
    if (sem_wait(&requests_) != 0) continue;
    uint32_t taken = 1;
    while (sem_trywait(&requests_) == 0) ++taken;
    std::string reason;
    {
      const std::lock_guard lock(mutex_);
      reason = std::exchange(reason_, {});
    }
    if (const int signal = signal_.exchange(0, std::memory_order_acq_rel); signal != 0) {
      reason = "signal " + std::to_string(signal);
    }
    write(reason);
    pending_.fetch_sub(taken, std::memory_order_acq_rel);
    futex_wake_all(pending_);
    const std::lock_guard lock(mutex_);
    if (stays_ || pending_.load(std::memory_order_acquire) != 0) continue;
    has_thread_ = false;
    return;
  }
}

void Dumper::write(const std::string& reason) {
  std::string folder;
  std::function<void(const std::string&)> after;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_ || left_ <= 0) return;
    --left_;
    folder = folder_;
    after = after_;
  }
  Ring* ring = process_ring();
  if (ring == nullptr) return;
  std::string path;
  if (const Status written = dump(*ring, folder, reason, &path); !written.is_ok()) {
    fprintf(stderr, "pycomms: no dump of the flight recorder: %s; its ring is %s\n", written.message().c_str(),
            ring->path().c_str());
    return;
  }
  if (after) after(path);
}

bool Dumper::wait_until_idle(Deadline deadline) {
  for (uint32_t pending; (pending = pending_.load(std::memory_order_acquire)) != 0;) {
    if (deadline.passed()) return false;
    futex_wait(pending_, pending, deadline.left());
  }
  return true;
}

void Dumper::stop(Deadline deadline) {
  static_cast<void>(wait_until_idle(deadline));
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  after_ = nullptr;
}

Status note_signal(int signal) {
  return install(signal, [](int number, siginfo_t* info, void* context) {
    const int error = errno;
    if (Ring* ring = process_ring(); ring != nullptr) ring->note_signal(number);
    errno = error;
    pass_on(number, info, context);
  });
}

Status dump_on_signal(int signal) {
  PYCOMMS_RETURN_IF_ERROR(Dumper::instance().start());
  return install(signal, [](int number, siginfo_t*, void*) {
    const int error = errno;
    // Until a forked child has a ring of its own there is nothing to dump, and nobody who would.
    if (process_ring() != nullptr) Dumper::instance().request_from_signal(number);
    errno = error;
  });
}

}  // namespace pycomms::recorder
