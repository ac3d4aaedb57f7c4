#include "nccl2/core/held_memory.h"

namespace pycomms {

HeldMemory& HeldMemory::instance() {
  static auto* one = new HeldMemory;
  return *one;
}

void HeldMemory::add(void* address) {
  const std::lock_guard lock(mutex_);
  all_[address] = {};
}

bool HeldMemory::owns(void* address) const {
  const std::lock_guard lock(mutex_);
  return all_.contains(address);
}

bool HeldMemory::give_up(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(address);
  if (found == all_.end()) return true;
  found->second.given_up = true;
  if (found->second.count > 0) return false;
  all_.erase(found);
  return true;
}

bool HeldMemory::hold(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(address);
  if (found == all_.end() || found->second.given_up) return false;
  ++found->second.count;
  return true;
}

bool HeldMemory::let_go(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(address);
  if (found == all_.end() || --found->second.count > 0 || !found->second.given_up) return false;
  all_.erase(found);
  return true;
}

}  // namespace pycomms
