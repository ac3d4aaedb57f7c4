#include "rma.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "base/futex.h"

namespace nccl_emulator {
namespace {

using pycomms::Code;
using pycomms::Status;

// All members tell all what they have.
template <typename Item>
pycomms::Result<std::vector<Item>> tell_all(hostccl::Communicator& comm, const Item& mine) {
  static_assert(sizeof(Item) <= hostccl::kReportBytes);
  hostccl::Report report{};
  std::memcpy(report.data(), &mine, sizeof(mine));
  const auto call = comm.roll_call(hostccl::RollCallKind::kWindow, report, comm.timeout_ns());
  if (call.result != nccl_abi::kSuccess) return Status(Code::kPeerFailure, "not all members registered the window");
  std::vector<Item> all(call.reports.size());
  for (size_t i = 0; i < all.size(); ++i) std::memcpy(&all[i], call.reports[i].data(), sizeof(Item));
  return all;
}

struct Descriptor {
  int64_t pid;
  int32_t fd;
};

pycomms::Result<std::shared_ptr<pycomms::SharedMapping>> map_theirs(const Descriptor& theirs) {
  const std::string path = "/proc/" + std::to_string(theirs.pid) + "/fd/" + std::to_string(theirs.fd);
  const pycomms::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return Status::system("opening the signals of process " + std::to_string(theirs.pid));
  return pycomms::SharedMapping::map(fd);
}

}  // namespace

pycomms::Result<std::shared_ptr<Rma>> Rma::open(hostccl::Communicator& comm) {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // where the kernel asks for it: the others may write into us
  std::shared_ptr<Rma> rma(new Rma(comm.rank()));
  auto memory = pycomms::create_shared_memory("nccl-signals", signal_bytes(comm.nranks()));
  if (!memory.is_ok()) return memory.status();
  rma->own_ = memory.take();
  rma->taken_.resize(static_cast<size_t>(comm.nranks() * kContexts * kSlots));
  auto all = tell_all(comm, Descriptor{getpid(), rma->own_.get()});
  if (!all.is_ok()) return all.status();
  for (const Descriptor& theirs : all.value()) {
    auto mapping = map_theirs(theirs);
    if (!mapping.is_ok()) return mapping.status();
    rma->signals_.push_back(mapping.take());
  }
  return rma;
}

pycomms::Result<int> Rma::add_window(hostccl::Communicator& comm, void* bytes, size_t size) {
  auto all = tell_all(comm, Region{getpid(), reinterpret_cast<uint64_t>(bytes), size});
  if (!all.is_ok()) return all.status();
  const std::lock_guard lock(mutex_);
  windows_.push_back(all.take());
  return static_cast<int>(windows_.size()) - 1;
}

Status Rma::put(int window, int peer, size_t offset, const void* local, size_t size) const {
  Region region;
  {
    const std::lock_guard lock(mutex_);
    region = windows_[static_cast<size_t>(window)][static_cast<size_t>(peer)];
  }
  if (offset > region.size || size > region.size - offset) {
    return {Code::kInvalidArgument, "put of " + std::to_string(size) + " bytes at " + std::to_string(offset) +
                                        " into a window of " + std::to_string(region.size)};
  }
  for (size_t done = 0; done < size;) {
    const iovec from{static_cast<std::byte*>(const_cast<void*>(local)) + done, size - done};
    const iovec to{reinterpret_cast<void*>(region.bytes + offset + done), size - done};
    const ssize_t written = process_vm_writev(static_cast<pid_t>(region.pid), &from, 1, &to, 1, 0);
    if (written <= 0) return Status::system("writing into the window of rank " + std::to_string(peer));
    done += static_cast<size_t>(written);
  }
  return {};
}

void Rma::signal(int peer, int context, int slot) const {
  Signals& theirs = signals_of(peer);
  theirs.counter(rank_, context, slot)->fetch_add(1, std::memory_order_acq_rel);
  theirs.bell.fetch_add(1, std::memory_order_seq_cst);
  pycomms::futex_wake_all(theirs.bell);
}

bool Rma::wait(const nccl_abi::WaitSignal& wanted, const std::function<bool()>& is_over) {
  Signals& ours = signals_of(rank_);
  const auto place = (wanted.peer * kContexts + wanted.context) * kSlots + wanted.slot;
  uint64_t& taken = taken_[static_cast<size_t>(place)];
  const std::atomic<uint64_t>& counter = *ours.counter(wanted.peer, wanted.context, wanted.slot);
  const uint64_t until = taken + static_cast<uint64_t>(wanted.count);
  for (;;) {
    const uint32_t seen = ours.bell.load(std::memory_order_seq_cst);
    if (counter.load(std::memory_order_acquire) >= until) break;
    if (is_over()) return false;
    pycomms::futex_wait(ours.bell, seen, 2 * pycomms::kMillisecond);
  }
  taken = until;
  return true;
}

}  // namespace nccl_emulator
