// Ctrl-C and SIGTERM: long work asks whether it should stop, ends cleanly and leaves nothing half-written.
// Invariant: the handler only sets a flag; a second signal ends the process at once.
#pragma once

namespace htpipe {

/// Lets SIGINT and SIGTERM set the flag; a second one exits with code 130. Called once, by main.
void install_interrupt_handlers();

/// True once a signal came. Safe from every thread; long loops and waits for workers ask it and return `interrupted`.
[[nodiscard]] bool interrupted();

/// Sets or clears the flag, as a signal does. For tests.
void set_interrupted(bool value);

}  // namespace htpipe
