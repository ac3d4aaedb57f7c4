#include "registrations.h"

#include <map>
#include <mutex>

namespace nccl_emulator {
namespace {

struct Registry {
  std::mutex mutex;
  uintptr_t next = 0x20000;                        // GUARDED_BY(mutex)
  std::map<const void*, Registration> registered;  // GUARDED_BY(mutex)
};

Registry& registry() {  // never destroyed: threads may still call
  static auto* one = new Registry();
  return *one;
}

}  // namespace

void* add_registration(const Registration& registration) {
  const std::lock_guard lock(registry().mutex);
  void* const number = reinterpret_cast<void*>(registry().next);
  registry().next += 16;
  registry().registered[number] = registration;
  return number;
}

std::optional<Registration> find_registration(const void* number) {
  const std::lock_guard lock(registry().mutex);
  const auto at = registry().registered.find(number);
  if (at == registry().registered.end()) return std::nullopt;
  return at->second;
}

bool remove_registration(Comm comm, const void* number) {
  const std::lock_guard lock(registry().mutex);
  const auto at = registry().registered.find(number);
  if (at == registry().registered.end() || at->second.comm != comm) return false;
  registry().registered.erase(at);
  return true;
}

void forget_registrations(Comm comm) {
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().registered, [comm](const auto& item) { return item.second.comm == comm; });
}

RegistrationCounts count_registrations() {
  const std::lock_guard lock(registry().mutex);
  RegistrationCounts counts;
  for (const auto& [number, registration] : registry().registered) {
    ++(registration.window >= 0 ? counts.windows : counts.buffers);
  }
  return counts;
}

}  // namespace nccl_emulator
