// Device memory of the engine's that communicators hold while they have it registered: its owner may give it up at any time,
// but it is freed only when the last of them has let go, so that no address comes to life again under a registration.
// Bookkeeping only: whoever is told so frees the memory. Any thread. Must not know: engines, communicators, torch.
#pragma once

#include <map>
#include <mutex>

namespace pycomms {

class HeldMemory {
 public:
  // Of the process; never destroyed, for memory outlives what is static.
  static HeldMemory& instance();

  void add(void* address);
  bool owns(void* address) const;
  // The owner has no use for it. True: free it now.
  bool give_up(void* address);

  // False: it is not of this kind, and will not wait for anybody when it is freed.
  bool hold(void* address);
  // True: its owner has given it up and nobody else holds it. Free it now.
  bool let_go(void* address);

 private:
  struct Holds {
    int count = 0;
    bool given_up = false;
  };

  mutable std::mutex mutex_;
  std::map<void*, Holds> all_;  // guarded by mutex_
};

}  // namespace pycomms
