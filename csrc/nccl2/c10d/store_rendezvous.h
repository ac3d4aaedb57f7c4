// Rendezvous through a c10d::Store: each id under a key, which the last rank to read it removes, so that a group of the same
// name can be made again over the same store. By one thread of each rank. Must not know: communicators.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <string>

#include "nccl2/core/rendezvous.h"

namespace pycomms::c10d_backend {

class StoreRendezvous final : public Rendezvous {
 public:
  // `outer`: asked while it waits; an error ends the wait. None: it just waits.
  StoreRendezvous(c10::intrusive_ptr<::c10d::Store> store, std::string group, int rank, int size,
                  std::function<Error()> outer = {})
      : store_(std::move(store)), group_(std::move(group)), rank_(rank), size_(size), outer_(std::move(outer)) {}

  Error make(const Engine& engine, int index, bool alone, UniqueId* id, Deadline deadline) override;
  Error fetch(int index, int root, UniqueId* id, Deadline deadline) override;

 private:
  Error wait_while_outer_is_well(int index, int root, Deadline deadline);
  Error nobody_came(int index, int root, int64_t waited_ns, const std::string& details) const;
  Error error(ErrorKind kind, int root, const std::string& what) const;
  std::string key(int index) const {
    return "pycomms/" + group_ + "/id" + (index == 0 ? "" : "/" + std::to_string(index));
  }

  const c10::intrusive_ptr<::c10d::Store> store_;
  const std::string group_;
  const int rank_;
  const int size_;
  const std::function<Error()> outer_;
};

}  // namespace pycomms::c10d_backend
