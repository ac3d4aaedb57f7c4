// Operations that NCCL has no name for, made of groups of its own: collectives with a piece, a count or a pointer for each
// rank. They have the shape of hostccl's extensions and fill the same places of the table.
// Must not know: communicators of ours, torch.
#pragma once

#include "nccl2/driver/nccl_api.h"

namespace pycomms {

// Fills what `engine` lacks. The engine is the only one of its kind in the process and is never unloaded.
void compose_missing(Engine& engine);

}  // namespace pycomms
