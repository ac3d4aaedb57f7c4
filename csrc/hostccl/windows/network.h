// The part of a communicator's windows that goes over TCP: the service of this rank and its connections to those of the others.
// Must not know: mapped memory.
#pragma once

#include <memory>

#include "hostccl/windows/reach.h"

namespace hostccl {

class WindowSite;

class WindowNetwork {
 public:
  RemoteWindows& remote();
};

}  // namespace hostccl
