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

void ClientLocks::end_wait(Waiting& each, WindowVerdict verdict, int rank) {
  each.attempt->give_up();
  each.attempt.reset();
  each.memory.reset();
  each.reply = WindowReply{each.request, verdict, rank, {}};
}

void ClientLocks::end_wait_in_vain(Waiting& each, int64_t now) {
  if (each.reply) return;
  if (each.memory->is_closed()) return end_wait(each, WindowVerdict::kClosed);
  if (each.deadline.passed(now)) end_wait(each, WindowVerdict::kTimeout, each.attempt->holder());
}

std::optional<WindowReply> ClientLocks::look(int64_t now, size_t& next) {
  for (; next < waiting_.size(); ++next) {
    Waiting& each = waiting_[next];
    if (!each.reply && !each.memory->is_closed() && each.attempt->try_now()) {
      each.reply = got(each.request, each.memory, each.attempt->broken());
    }
    end_wait_in_vain(each, now);
    if (!each.reply) continue;
    std::optional<WindowReply> reply = std::move(each.reply);
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(next));
    return reply;
  }
  return std::nullopt;
}

void ClientLocks::expire(int64_t now) {
  for (Waiting& each : waiting_) end_wait_in_vain(each, now);
}

void ClientLocks::release(uint32_t window) {
  std::erase_if(held_, [&](const Held& each) { return each.window == window; });
  for (Waiting& each : waiting_) {
    if (each.request.window == window && !each.reply) end_wait(each, WindowVerdict::kClosed);
  }
}

}  // namespace hostccl
