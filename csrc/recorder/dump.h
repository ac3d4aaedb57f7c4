// Copies a ring into a file of its own: what the process did up to this moment, which later operations do not overwrite.
// Any thread; takes no lock that operations need. Must not know: why.
#pragma once

#include <string>

#include "base/status.h"
#include "recorder/ring.h"

namespace pycomms::recorder {

// Writes folder/<name of the ring>.<number>.dump: beside it first, to the disk, then renamed. Never overwrites. *path: where.
Status dump(Ring& ring, const std::string& folder, const std::string& reason, std::string* path);

}  // namespace pycomms::recorder
