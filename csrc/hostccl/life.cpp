#include "hostccl/life.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "base/fork.h"
#include "base/futex.h"
#include "base/thread.h"

namespace hostccl {
namespace {

using pycomms::Status;

// The kernel's robust list: a circle of `next` pointers that starts and ends at the head.
struct Keeper {
  std::mutex mutex;
  std::atomic<uint32_t> thread_id{0};
  LifeNode* first = nullptr;  // GUARDED_BY(mutex)
  robust_list_head head{};
};

Keeper& keeper() { return pycomms::per_process<Keeper>(); }

constexpr long kFutexOffset = offsetof(LifeNode, word);

robust_list* as_list(LifeNode* node) { return reinterpret_cast<robust_list*>(node); }

// The kernel reads the list only when the thread is dead, so a plain relink in the right order is enough.
void publish(Keeper& k) { k.head.list.next = k.first ? as_list(k.first) : &k.head.list; }

void keep() {
  Keeper& k = keeper();
  // It never runs but to end, and then the others should not wait until busy neighbours let it: where this is allowed (by a
  // privilege, or RLIMIT_NICE) it goes before them.
  static_cast<void>(setpriority(PRIO_PROCESS, 0, -20));
  k.head.list.next = &k.head.list;
  k.head.futex_offset = kFutexOffset;
  k.head.list_op_pending = nullptr;
  syscall(SYS_set_robust_list, &k.head, sizeof(k.head));
  k.thread_id.store(static_cast<uint32_t>(syscall(SYS_gettid)), std::memory_order_release);
  pycomms::futex_wake_all(k.thread_id);
  for (;;) pycomms::sleep_for(3600 * pycomms::kSecond);
}

// GUARDED_BY(k.mutex)
Status start(Keeper& k) {
  if (k.thread_id.load(std::memory_order_acquire) != 0) return {};
  auto thread = pycomms::start_thread("pycomms-life", keep);
  if (!thread.is_ok()) return thread.status();
  thread.take().detach();  // it lives as long as the process
  const auto deadline = pycomms::Deadline::after(10 * pycomms::kSecond);
  while (k.thread_id.load(std::memory_order_acquire) == 0) {
    if (deadline.passed()) return {pycomms::Code::kTimeout, "the life thread did not start within 10 s"};
    pycomms::futex_wait(k.thread_id, 0, pycomms::kMillisecond);
  }
  return {};
}

}  // namespace

pycomms::Result<std::unique_ptr<LifeHold>> LifeHold::take(LifeNode& node) {
  Keeper& k = keeper();
  std::lock_guard lock(k.mutex);
  if (Status status = start(k); !status.is_ok()) return status;
  node.word.store(k.thread_id.load(std::memory_order_relaxed), std::memory_order_release);
  node.next = k.first ? k.first : reinterpret_cast<LifeNode*>(&k.head.list);
  k.first = &node;
  publish(k);
  return std::unique_ptr<LifeHold>(new LifeHold(node));
}

LifeHold::LifeHold(LifeNode& node) : node_(node), fork_generation_(pycomms::fork_generation()) {}

LifeHold::~LifeHold() {
  if (fork_generation_ != pycomms::fork_generation()) return;  // a forked child holds nothing
  Keeper& k = keeper();
  std::lock_guard lock(k.mutex);
  auto* const end = reinterpret_cast<LifeNode*>(&k.head.list);
  if (k.first == &node_) {
    k.first = node_.next == end ? nullptr : node_.next;
    publish(k);
  } else {
    for (LifeNode* at = k.first; at != nullptr && at != end; at = at->next) {
      if (at->next == &node_) {
        at->next = node_.next;
        break;
      }
    }
  }
  node_.word.store(0, std::memory_order_release);
}

bool is_dead(const LifeNode& node) { return (node.word.load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0; }

ProcessWatch::ProcessWatch(int pid) : pidfd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}

bool ProcessWatch::has_ended() const {
  if (!pidfd_) return false;
  pollfd look{pidfd_.get(), POLLIN, 0};
  return poll(&look, 1, 0) == 1;
}

std::string how_it_ended(int pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "re"), fclose);
  if (!file) return {};
  char text[2048];
  text[fread(text, 1, sizeof(text) - 1, file.get())] = '\0';
  const char* field = strrchr(text, ')');  // the name may hold anything: count fields from its end
  if (field == nullptr || field[1] == '\0') return {};
  if (field[2] != 'Z' && field[2] != 'X') return {};
  const char* last = strrchr(text, ' ');  // exit_code is the last field, in the form of waitpid
  const int code = last ? atoi(last) : 0;
  if (const int signal = code & 0x7f; signal != 0) return "killed by signal " + std::to_string(signal);
  return "ended with exit code " + std::to_string((code >> 8) & 0xff);
}

}  // namespace hostccl
