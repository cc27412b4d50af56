"""The fields that Google's REST API has and its Python classes lack, written by hand.

The fields come from Google's discovery documents, which have no wire numbers: the numbers are our
own, far above those of Google. A line has the form `Message.field number [repeated] type [note]`.
The note is the oneof of the field, or `output` if only the cloud may set the field. The first field
of a message that Google's classes lack creates the message.
"""

from __future__ import annotations

from dataclasses import dataclass

V2 = "google.cloud.tpu.v2"
V2ALPHA1 = "google.cloud.tpu.v2alpha1"
LOCATION = "google.cloud.location"

MAINTENANCE = """
UpcomingMaintenance.type_ 10001 UpcomingMaintenance.MaintenanceType
UpcomingMaintenance.can_reschedule 10002 bool
UpcomingMaintenance.window_start_time 10003 string
UpcomingMaintenance.window_end_time 10004 string
UpcomingMaintenance.latest_window_start_time 10005 string
UpcomingMaintenance.maintenance_status 10006 UpcomingMaintenance.MaintenanceStatus
"""

MORE_OF_THE_BOOT_DISK = """
BootDiskConfig.disk_size_gb 10003 int64
BootDiskConfig.source_image 10004 string
BootDiskConfig.storage_pool 10005 string
BootDiskConfig.provisioned_iops 10006 int64
BootDiskConfig.provisioned_throughput 10007 int64
"""

SCHEDULING = """
AttachedDisk.worker_ids 10001 repeated string
SchedulingConfig.provisioning_model 10001 SchedulingConfig.ProvisioningModel
SchedulingConfig.reservation_name 10002 string
SchedulingConfig.termination_timestamp 10003 google.protobuf.Timestamp output
QueuedResource.provisioning_model 10001 QueuedResource.ProvisioningModel
QueuedResource.run_duration 10002 RunDuration
RunDuration.max_run_duration 10001 google.protobuf.Duration run
RunDuration.termination_time 10002 google.protobuf.Timestamp run
"""

# By version: the fields that its REST API shows and its Python classes lack.
SHOWN = {
    V2: f"""
Node.boot_disk_config 10001 BootDiskConfig
Node.protection_tier 10002 Node.ProtectionTier output
Node.upcoming_maintenance 10003 UpcomingMaintenance output
BootDiskConfig.customer_encryption_key 10001 CustomerEncryptionKey
CustomerEncryptionKey.kms_key_name 10001 string key
{MAINTENANCE}
""",
    V2ALPHA1: f"""
{MORE_OF_THE_BOOT_DISK}
{SCHEDULING}
GetMaintenanceInfoRequest.name 10001 string
GetMaintenanceInfoResponse.node_upcoming_maintenances 10001 repeated NodeUpcomingMaintenanceInfo
NodeUpcomingMaintenanceInfo.node_name 10001 string
NodeUpcomingMaintenanceInfo.node_uid 10002 int64
NodeUpcomingMaintenanceInfo.upcoming_maintenance 10003 UpcomingMaintenance
""",
    LOCATION: """
ListLocationsRequest.extra_location_types 10001 repeated string
""",
}

# Fields that a stored v2 message keeps for the other versions, and v2 itself never shows.
KEPT = f"""
{MORE_OF_THE_BOOT_DISK}
{SCHEDULING}
Node.autocheckpoint_enabled 10004 bool
Node.use_service_networking 10005 bool
BootDiskConfig.enable_confidential_compute 10002 bool
QueuedResource.best_effort 10003 QueuedResource.BestEffort tier
QueuedResource.Guaranteed.reserved 10001 bool
QueuedResource.Tpu.NodeSpec.MultisliceParams.workload_type 10001 WorkloadType
"""

ENUMS = {
    "Node.ProtectionTier": "PROTECTION_TIER_UNSPECIFIED STANDARD CAPACITY_OPTIMIZED",
    "UpcomingMaintenance.MaintenanceType": "UNKNOWN_TYPE SCHEDULED UNSCHEDULED",
    "UpcomingMaintenance.MaintenanceStatus": "UNKNOWN PENDING ONGOING",
    "SchedulingConfig.ProvisioningModel": "PROVISIONING_MODEL_UNSPECIFIED STANDARD SPOT"
    " RESERVATION_BOUND",
    "QueuedResource.ProvisioningModel": "PROVISIONING_MODEL_UNSPECIFIED STANDARD SPOT"
    " RESERVATION_BOUND FLEX_START",
    "WorkloadType": "WORKLOAD_TYPE_UNSPECIFIED THROUGHPUT_OPTIMIZED AVAILABILITY_OPTIMIZED",
}


@dataclass(frozen=True)
class Extra:
    """One added field; `kind` is a scalar, an enum or message of its package, or a full name."""

    owner: str
    name: str
    number: int
    repeated: bool
    kind: str
    note: str

    @property
    def is_output(self) -> bool:
        return self.note == "output"

    @property
    def oneof_name(self) -> str:
        return "" if self.is_output else self.note


def parse_rows(text: str) -> list[Extra]:
    found = []
    for line in filter(None, text.splitlines()):
        path, number, *rest = line.split()
        repeated = rest[0] == "repeated"
        kind, note = [*rest[repeated:], ""][:2]
        owner, _, name = path.rpartition(".")
        found.append(Extra(owner, name, int(number), repeated, kind, note))
    return found


OUTPUTS = frozenset(
    (package, extra.owner, extra.name)
    for package, text in (*SHOWN.items(), (V2, KEPT))
    for extra in parse_rows(text)
    if extra.is_output
) | {(V2ALPHA1, "Node", "upcoming_maintenance")}
"""Package, message and name of the fields that a request cannot set."""
