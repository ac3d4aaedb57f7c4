// Which line of the user's program has called us: the innermost Python frame of this thread outside torch and pycomms.
// A line that was seen before costs a few loads and no GIL: an operation is issued without it, and to take it would be to
// wait for whatever other threads run in Python.
// Any thread. Must not know: tensors, groups.
#pragma once

#include <string>
#include <vector>

#include "recorder/ring.h"

namespace pycomms::python {

// Folders of files that are not the user's; with the GIL, before the first operation.
void set_internal_folders(std::vector<std::string> folders);

// "file:line\nfunction" in the ring's heap; zero on a thread that runs no Python.
recorder::Text call_site(recorder::Ring& ring);
// Such pairs for all frames outside torch and pycomms, innermost first, separated by newlines.
recorder::Text call_stack(recorder::Ring& ring);

}  // namespace pycomms::python
