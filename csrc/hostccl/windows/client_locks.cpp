#include "hostccl/windows/client_locks.h"

#include <algorithm>
#include <utility>

namespace hostccl {

ClientLocks::~ClientLocks() {
  // What the client has got stays: if it has died, the next who finds it tells so.
  for (Waiting& each : waiting_) {
    if (each.attempt != nullptr) each.attempt->give_up();
  }
}

WindowReply ClientLocks::got(const WindowRequest& request, std::shared_ptr<const WindowMemory> memory, int broken) {
  held_.push_back({request.number, request.window, (request.flags & kShared) != 0, std::move(memory)});
  return {request, WindowVerdict::kDone, broken, {}};
}

std::optional<WindowReply> ClientLocks::lock(const WindowRequest& request, std::shared_ptr<const WindowMemory> memory) {
  if (held_.size() + waiting_.size() >= kHeld || waiting_.size() >= kWaiting) {
    return WindowReply{request, WindowVerdict::kRefused, -1,
                       "this rank waits for " + std::to_string(waiting_.size()) + " locks there and has " +
                           std::to_string(held_.size()) + ", which is as many as it may"};
  }
  auto attempt = std::make_unique<WindowLockAttempt>(*memory, client_, (request.flags & kShared) != 0, is_dead_);
  if (attempt->try_now()) return got(request, std::move(memory), attempt->broken());
  waiting_.push_back({request, std::move(memory), std::move(attempt), pycomms::Deadline::after(request.value)});
  return std::nullopt;
}

WindowReply ClientLocks::unlock(const WindowRequest& request, const WindowMemory& memory) {
  const bool shared = (request.flags & kShared) != 0;
  const auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& each) {
    return each.window == request.window && each.shared == shared;
  });
  if (held == held_.end() || !hostccl::unlock(memory, client_, shared)) {
    return {request, WindowVerdict::kRefused, -1,
            std::string("this rank does not hold the lock ") + (shared ? "together with others" : "alone")};
  }
  held_.erase(held);
  return {request, WindowVerdict::kDone, -1, {}};
}

bool ClientLocks::forgo(uint64_t number) {
  const auto waits = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Waiting& each) { return each.request.number == number; });
  if (waits != waiting_.end()) {
    if (waits->attempt != nullptr) waits->attempt->give_up();
    waiting_.erase(waits);
    return true;
  }
  const auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& each) { return each.number == number; });
  if (held == held_.end()) return false;
  static_cast<void>(hostccl::unlock(*held->memory, client_, held->shared));
  held_.erase(held);
  return true;
}

std::optional<WindowReply> ClientLocks::look(int64_t now, size_t& next) {
  while (next < waiting_.size()) {
    const auto each = waiting_.begin() + static_cast<ptrdiff_t>(next);
    std::optional<WindowReply> reply;
    if (each->memory == nullptr || each->memory->is_closed()) {
      reply = WindowReply{each->request, WindowVerdict::kClosed, -1, {}};
    } else if (each->attempt->try_now()) {
      reply = got(each->request, each->memory, each->attempt->broken());
    } else if (each->deadline.passed(now)) {
      const int holder = each->attempt->holder();
      each->attempt->give_up();
      reply = WindowReply{each->request, WindowVerdict::kTimeout, holder, {}};
    }
    if (reply) {
      waiting_.erase(each);
      return reply;
    }
    ++next;
  }
  return std::nullopt;
}

void ClientLocks::release(uint32_t window) {
  std::erase_if(held_, [&](const Held& each) { return each.window == window; });
  for (Waiting& each : waiting_) {
    if (each.request.window != window || each.memory == nullptr) continue;
    each.attempt->give_up();
    each.attempt.reset();
    each.memory.reset();
  }
}

}  // namespace hostccl
