// What a communicator has registered: segments that come and go, addresses that come again, memory that is held, windows.
#include "check.h"
#include "nccl2/core/registrations.h"

#include <map>
#include <string>

using namespace pycomms;
using Mode = Registrations::Mode;

namespace {

// An engine that only counts; handles are the addresses.
struct Calls {
  std::map<void*, int> local, windows;  // registered now
  int registered = 0, freed = 0;
  bool refuses = false;
} calls;

EngineResult comm_register(CommHandle, void* data, size_t, void** handle) {
  if (calls.refuses) return nccl_abi::kInvalidArgument;
  ++calls.registered;
  ++calls.local[data];
  *handle = data;
  return nccl_abi::kSuccess;
}
EngineResult comm_deregister(CommHandle, void* handle) {
  return calls.local.erase(handle) == 1 ? nccl_abi::kSuccess : nccl_abi::kInvalidArgument;
}
EngineResult window_register(CommHandle, void* data, size_t, nccl_abi::WindowHandle* window, int) {
  ++calls.windows[data];
  *window = static_cast<nccl_abi::WindowHandle>(data);
  return nccl_abi::kInProgress;
}
EngineResult window_deregister(CommHandle, nccl_abi::WindowHandle window) {
  return calls.windows.erase(window) == 1 ? nccl_abi::kSuccess : nccl_abi::kInvalidArgument;
}
EngineResult mem_free(void*) {
  ++calls.freed;
  return nccl_abi::kSuccess;
}

const Engine& engine() {
  static const Engine one = [] {
    Engine made;
    made.version = 23007;
    made.nccl.comm_register = comm_register;
    made.nccl.comm_deregister = comm_deregister;
    made.nccl.comm_window_register = window_register;
    made.nccl.comm_window_deregister = window_deregister;
    made.nccl.mem_free = mem_free;
    return made;
  }();
  return one;
}

EngineResult settled(EngineResult) { return nccl_abi::kSuccess; }

void* at(uintptr_t number) { return reinterpret_cast<void*>(number << 20); }
DeviceSegments& segments() { return DeviceSegments::instance(); }
void make(uintptr_t number, PoolId pool = {0, 1}) { segments().add({at(number), 1 << 20, 0, pool}); }

constexpr CommHandle kComm = nullptr;

struct Fixture {
  Fixture() { calls = {}; }
  ~Fixture() {
    for (const DeviceSegment& one : segments().of_device(0)) segments().remove(one.address);
  }
  Registrations memory{engine(), 0};
};

}  // namespace

TEST(an_old_library_can_do_less) {
  Engine old;
  old.version = 21805;
  const auto answer = Registrations(old, 0).can_register(Mode::kSymmetric);
  CHECK(!answer.is_ok());
  CHECK(answer.why.find("NCCL 2.27") != std::string::npos);
  CHECK(answer.why.find("2.18.5") != std::string::npos);
  CHECK(Registrations(engine(), 0).can_register(Mode::kLocal).is_ok());
}

TEST(nothing_is_stale_while_nobody_asks) {
  Fixture f;
  CHECK(f.memory.refresh(kComm).is_ok());
  CHECK(!f.memory.is_stale());
  make(1);
  CHECK(f.memory.is_stale());
  CHECK(f.memory.refresh(kComm).is_ok());
  CHECK(!f.memory.is_stale());
  CHECK_EQ(calls.registered, 0);
}

TEST(segments_are_followed) {
  Fixture f;
  make(1);
  f.memory.follow_all();
  CHECK(f.memory.refresh(kComm).is_ok());
  make(2);
  CHECK(f.memory.refresh(kComm).is_ok());
  CHECK_EQ(calls.local.size(), 2u);
  segments().remove(at(1));
  CHECK(f.memory.has_gone());
  CHECK(f.memory.refresh(kComm).is_ok());
  CHECK_EQ(calls.local.size(), 1u);
  CHECK(calls.local.contains(at(2)));
}

TEST(an_address_that_comes_again_is_another_segment) {
  Fixture f;
  make(1);
  f.memory.follow_all();
  CHECK(f.memory.refresh(kComm).is_ok());
  segments().remove(at(1));
  make(1);
  CHECK(f.memory.has_gone());
  CHECK(f.memory.refresh(kComm).is_ok());
  CHECK_EQ(calls.registered, 2);
  CHECK_EQ(calls.local.size(), 1u);
}

TEST(what_the_engine_refuses_is_not_tried_again) {
  Fixture f;
  make(1);
  calls.refuses = true;
  f.memory.follow_all();
  CHECK(f.memory.refresh(kComm).is_ok());
  CHECK_EQ(f.memory.refused(), 1u);
  calls.refuses = false;
  make(2);
  CHECK(f.memory.refresh(kComm).is_ok());
  CHECK_EQ(calls.registered, 1);
}

TEST(held_memory_is_freed_by_the_last) {
  Fixture f;
  Registrations other(engine(), 0);
  HeldMemory& held = HeldMemory::instance();
  make(1);
  held.add(at(1));
  for (Registrations* one : {&f.memory, &other}) {
    one->follow({0, 1});
    CHECK(one->refresh(kComm).is_ok());
  }
  segments().remove(at(1));
  CHECK(!held.give_up(at(1)));
  CHECK(f.memory.refresh(kComm).is_ok());
  CHECK_EQ(calls.freed, 0);
  other.forget();  // aborted
  CHECK_EQ(calls.freed, 1);
  CHECK(!held.owns(at(1)));
}

TEST(windows_stay_until_they_are_dropped) {
  Fixture f;
  const PoolId pool{0, 1};
  make(1);
  HeldMemory::instance().add(at(1));
  CHECK(f.memory.add(kComm, pool, segments().of_pool(pool), Mode::kSymmetric, settled).is_ok());
  CHECK(f.memory.missing(segments().of_pool(pool), Mode::kLocal).empty());
  segments().remove(at(1));
  CHECK(!HeldMemory::instance().give_up(at(1)));
  CHECK(!f.memory.has_gone());
  CHECK(f.memory.refresh(kComm).is_ok());
  CHECK_EQ(calls.windows.size(), 1u);
  CHECK(f.memory.drop(kComm, pool, settled).is_ok());
  CHECK_EQ(calls.windows.size(), 0u);
  CHECK_EQ(calls.freed, 1);
}

TEST(a_listing_does_not_bring_back_what_is_gone) {
  Fixture f;
  segments().begin_listing();
  make(2);
  segments().remove(at(1));
  segments().end_listing({{at(1), 1, 0, {0, 0}}, {at(2), 1, 0, {0, 0}}, {at(3), 1, 0, {0, 0}}});
  const auto live = segments().of_device(0);
  CHECK_EQ(live.size(), 2u);
  CHECK_EQ(live[0].bytes, size_t{1} << 20);
  CHECK(live[1].address == at(3));
}

CHECK_MAIN()
