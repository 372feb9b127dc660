"""Read what was proven: winners are plain records, with the evidence they rest on."""

from kernelwright import report
from kernelwright import winners

records = winners.all_records()
for record in records:
    here = "this machine" if record.machine == winners.this_machine() else f"machine {record.machine}"
    print(f"{record.operator} {record.bucket} on {here}, {record.created}")
    print(f"  {record.implementation}: {report.configuration(record.configuration)}")
    ratio, interval = record.evidence.get("ratio"), record.evidence.get("interval")
    print(f"  {report.ratio(ratio, interval)} against the default")
# A file that could not be read was set aside, and says so.
for shelf in winners.shelves():
    for note in shelf.notes:
        print(f"note on {shelf.operator}: {note}")
if not records:
    print(f"none yet in {winners.folder()}; `kernelwright tune rms_norm` finds some")
