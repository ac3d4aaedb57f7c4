// The locks that one client of the service waits for, and those that it has got through it.
// The service's thread. Must not know: connections.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "hostccl/windows/locks.h"
#include "hostccl/windows/wire.h"

namespace hostccl {

// What becomes of a request.
struct WindowReply {
  WindowRequest request;
  WindowVerdict verdict = WindowVerdict::kDone;
  int rank = -1;
  std::string words;
};

class ClientLocks {
 public:
  static constexpr size_t kWaiting = 64;
  static constexpr size_t kHeld = 1024;

  ClientLocks(int client, const std::function<bool(int)>& is_dead) : client_(client), is_dead_(is_dead) {}
  ~ClientLocks();
  ClientLocks(const ClientLocks&) = delete;
  ClientLocks& operator=(const ClientLocks&) = delete;

  // None: it has to wait.
  std::optional<WindowReply> lock(const WindowRequest& request, std::shared_ptr<const WindowMemory> memory);
  WindowReply unlock(const WindowRequest& request, const WindowMemory& memory);
  // True: somebody may get now what this client had, or wanted.
  bool forgo(uint64_t number);

  bool is_waiting() const { return !waiting_.empty(); }
  // Tries each of those that wait once, until one of them has its answer. `next`: where to go on, at first 0.
  std::optional<WindowReply> look(int64_t now, size_t& next);

  // For a client that cannot be answered now: those whose time is over want the lock no more.
  void expire(int64_t now);

  // The window is not touched any more; who waits for its lock is told so by look().
  void release(uint32_t window);

 private:
  struct Waiting {
    WindowRequest request;
    std::shared_ptr<const WindowMemory> memory;  // shared: the owner may close the window meanwhile
    std::unique_ptr<WindowLockAttempt> attempt;
    pycomms::Deadline deadline;
    std::optional<WindowReply> reply = std::nullopt;  // once it waits no more, and the two before are gone
  };
  struct Held {
    uint64_t number;
    uint32_t window;
    bool shared;
    std::shared_ptr<const WindowMemory> memory;
  };

  static void end_wait(Waiting& each, WindowVerdict verdict, int rank = -1);
  static void end_wait_in_vain(Waiting& each, int64_t now);
  WindowReply got(const WindowRequest& request, std::shared_ptr<const WindowMemory> memory, int broken);

  const int client_;
  const std::function<bool(int)>& is_dead_;
  std::deque<Waiting> waiting_;
  std::vector<Held> held_;
};

}  // namespace hostccl
