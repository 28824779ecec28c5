"""Access control: roles, the proofs by which processes show roles, and the files with them.

- `access`: the roles, and the one table of which role may call which method.
- `token`: makes and verifies signed tokens. `local`: proofs between processes of one user.
- `secret_file`, `folder`: files that only their user may read; a role's folder of such files.
- `caller`: what a process shows, and faults in its certificate if a service closed a connection.
- `authority`: makes the files of ``penstock keys``: a CA, certificates, signing keys.
- `entrance`: what a service has of all this, and the seals that show a worker that a definition
  came from its dispatcher.
- `guard`: admits or refuses a call, without gRPC, which `penstock.wire` adds.
- `http`: admits or refuses HTTP requests, and sets up TLS for HTTP.

A process that verifies tokens loads the package `cryptography`; one that only shows them does not.
"""
