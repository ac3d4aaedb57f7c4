#include "nccl2/core/registrations.h"

#include "nccl2/driver/cuda_scope.h"

namespace pycomms {
namespace {

std::string version_text(int version) {  // 22304 -> 2.23.4
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

Registrations::Answer Registrations::can_register(Mode mode) const {
  const bool symmetric = mode == Mode::kSymmetric;
  const bool can = symmetric ? nccl_.comm_window_register != nullptr && nccl_.comm_window_deregister != nullptr
                             : nccl_.comm_register != nullptr && nccl_.comm_deregister != nullptr;
  if (can) return {};
  return {nccl_abi::kInvalidUsage, std::string("NCCL ") + (symmetric ? "2.27" : "2.19") + " or newer is needed" +
                                       (symmetric ? " for symm=True" : "") + ", and the one that is loaded is " +
                                       version_text(version_)};
}

// --- Following -------------------------------------------------------------------------------------------------------

void Registrations::follow_all() {
  if (all_.exchange(true)) return;
  is_fresh_.store(false, std::memory_order_relaxed);
}

void Registrations::follow(const PoolId& pool) {
  const std::lock_guard turn(turn_);
  if (followed_.insert(pool).second) is_fresh_.store(false, std::memory_order_relaxed);
}

bool Registrations::is_wanted(const DeviceSegment& segment) const {
  return segment.device == device_ && (all_.load(std::memory_order_relaxed) || followed_.contains(segment.pool));
}

// A window is taken down by all ranks together, so it stays until they do; its memory stays with it.
bool Registrations::is_gone(void* address, const Entry& entry) const {
  return entry.window == nullptr && !DeviceSegments::instance().is_live(address, entry.serial);
}

bool Registrations::has_gone() {
  const std::lock_guard turn(turn_);
  for (const auto& [address, entry] : entries_) {
    if (is_gone(address, entry)) return true;
  }
  return false;
}

Registrations::Answer Registrations::refresh(CommHandle comm) {
  const std::lock_guard turn(turn_);
  const RelaxedCapture relaxed;
  const uint64_t version = DeviceSegments::instance().version();
  is_fresh_.store(true, std::memory_order_relaxed);
  seen_.store(version, std::memory_order_relaxed);
  Answer first;
  for (auto one = entries_.begin(); one != entries_.end();) {
    if (!is_gone(one->first, one->second)) {
      ++one;
      continue;
    }
    Answer dropped = drop_entry(comm, one->first, one->second, nullptr);
    if (first.is_ok()) first = std::move(dropped);
    one = entries_.erase(one);
  }
  if (!follows_all() && followed_.empty()) return first;
  if (!can_register(Mode::kLocal).is_ok()) return first;
  for (const DeviceSegment& segment : DeviceSegments::instance().of_device(device_)) {
    if (!is_wanted(segment)) continue;
    Entry& entry = entry_of(segment);
    if (entry.handle != nullptr || entry.window != nullptr || entry.is_refused) continue;
    // An operation works without it, only slower.
    if (add_local(comm, segment) == nccl_abi::kSuccess) continue;
    entry.is_refused = true;
    refused_.fetch_add(1, std::memory_order_relaxed);
  }
  return first;
}

// --- Pools -----------------------------------------------------------------------------------------------------------

Registrations::Mode Registrations::mode_of(const PoolId& pool) {
  const std::lock_guard turn(turn_);
  const auto found = pools_.find(pool);
  return found == pools_.end() ? Mode::kNone : found->second;
}

std::vector<DeviceSegment> Registrations::missing(const std::vector<DeviceSegment>& segments, Mode mode) {
  const std::lock_guard turn(turn_);
  std::vector<DeviceSegment> result;
  for (const DeviceSegment& segment : segments) {
    const auto found = entries_.find(segment.address);
    const bool is_there =
        found != entries_.end() && found->second.serial == segment.serial &&
        (mode == Mode::kSymmetric ? found->second.window != nullptr
                                  : found->second.window != nullptr || found->second.handle != nullptr);
    if (!is_there) result.push_back(segment);
  }
  return result;
}

Registrations::Answer Registrations::add(CommHandle comm, const PoolId& pool,
                                         const std::vector<DeviceSegment>& segments, Mode mode, const Settle& settle) {
  const std::lock_guard turn(turn_);
  const RelaxedCapture relaxed;
  pools_[pool] = mode;
  for (const DeviceSegment& segment : segments) {
    Answer answer = mode == Mode::kSymmetric ? add_window(comm, segment, settle) : Answer{add_local(comm, segment), {}};
    if (!answer.is_ok()) return answer;
  }
  return {};
}

Registrations::Entry& Registrations::entry_of(const DeviceSegment& segment) {
  const auto [at, is_new] = entries_.try_emplace(segment.address);
  Entry& entry = at->second;
  if (!is_new) return entry;
  entry.serial = segment.serial;
  entry.pool = segment.pool;
  entry.is_held = HeldMemory::instance().hold(segment.address);
  return entry;
}

EngineResult Registrations::add_local(CommHandle comm, const DeviceSegment& segment) {
  Entry& entry = entry_of(segment);
  if (entry.handle != nullptr) return nccl_abi::kSuccess;
  return nccl_.comm_register(comm, segment.address, segment.bytes, &entry.handle);
}

Registrations::Answer Registrations::add_window(CommHandle comm, const DeviceSegment& segment, const Settle& settle) {
  Entry& entry = entry_of(segment);
  if (entry.window != nullptr) return {};
  const EngineResult result = settle(
      nccl_.comm_window_register(comm, segment.address, segment.bytes, &entry.window, nccl_abi::kWindowSymmetric));
  if (result != nccl_abi::kSuccess) return {result, {}};
  if (entry.window != nullptr) return {};
  return {nccl_abi::kInvalidUsage, "NCCL makes no symmetric memory on this machine; symm=False works"};
}

Registrations::Answer Registrations::drop_entry(CommHandle comm, void* address, Entry& entry, const Settle& settle) {
  Answer answer;
  if (entry.window != nullptr) {
    answer.result = settle(nccl_.comm_window_deregister(comm, entry.window));
  }
  if (entry.handle != nullptr) {
    const EngineResult result = nccl_.comm_deregister(comm, entry.handle);
    if (answer.is_ok()) answer.result = result;
  }
  // What is still registered is better leaked than given to somebody else.
  if (answer.is_ok()) release(address, entry);
  return answer;
}

void Registrations::release(void* address, const Entry& entry) {
  if (entry.is_held && HeldMemory::instance().let_go(address)) static_cast<void>(nccl_.mem_free(address));
}

Registrations::Answer Registrations::drop(CommHandle comm, const PoolId& pool, const Settle& settle) {
  const std::lock_guard turn(turn_);
  const RelaxedCapture relaxed;
  pools_.erase(pool);
  Answer first;
  for (auto one = entries_.begin(); one != entries_.end();) {
    if (one->second.pool != pool) {
      ++one;
      continue;
    }
    Answer dropped = drop_entry(comm, one->first, one->second, settle);
    if (first.is_ok()) first = std::move(dropped);
    one = entries_.erase(one);
  }
  is_fresh_.store(false, std::memory_order_relaxed);  // if it is followed, too
  return first;
}

// --- The end ---------------------------------------------------------------------------------------------------------

bool Registrations::is_empty() {
  const std::lock_guard turn(turn_);
  return entries_.empty();
}

void Registrations::drop_all(CommHandle comm, const Settle& settle) {
  const std::lock_guard turn(turn_);
  const RelaxedCapture relaxed;
  for (auto& [address, entry] : entries_) static_cast<void>(drop_entry(comm, address, entry, settle));
  entries_.clear();
}

void Registrations::forget() {
  const std::lock_guard turn(turn_);
  const RelaxedCapture relaxed;
  for (const auto& [address, entry] : entries_) release(address, entry);
  entries_.clear();
}

}  // namespace pycomms
