"""What each wait event is a wait for, in groups: every event of PostgreSQL 16 to 19 is in one.

The names are those of src/backend/utils/activity/wait_event_names.txt of 17 to 19; those of 16
(wait_event.c) that are spelled otherwise stand beside them.
"""

PARALLEL, IDLE, CLIENT = "parallel query", "idle", "client"
READ, TEMPORARY_FILES, WAL_FLUSH, WAL_INSERT = "read", "temporary", "wal", "wal insert"
DATA_WRITE, EXTENSION, SLRU, CHECKPOINT = "data write", "extension", "slru", "checkpoint"
ROW_LOCK, LOCK, LIGHT, STANDBY = "row lock", "lock", "lwlock", "standby"
SLEEP, VACUUM_DELAY, REPLICATION, OTHER_FILES, OTHER = "sleep", "delay", "replication", "files", "other"

# Events of reads of relations. BufferIo: another process reads the same page (bufmgr.c, WaitIO).
READS = frozenset(
    {
        *("DataFileRead", "DataFilePrefetch", "AioIoCompletion", "AioIoUringExecution", "AioIoUringSubmit"),
        *("AioUringCompletion", "AioWorkerSubmissionQueue", "AioWorkerControl", "BufferIo", "BufferIO"),
    }
)
TEMPORARY = frozenset(
    {"BuffileRead", "BuffileWrite", "BuffileTruncate", "BufFileRead", "BufFileWrite", "BufFileTruncate"}
)
WAL = frozenset(
    {
        *("WALSync", "WALWrite", "WALInitSync", "WALInitWrite", "WalSync", "WalWrite", "WalInitSync"),
        *("WalInitWrite", "WALSyncMethodAssign", "WalSyncMethodAssign", "CommitDelay"),
    }
)
# The events of class IPC in which the processes of one parallel query wait for each other. All others of the
# class are waits of their own: for a standby, a checkpoint, a group of transactions.
PARALLEL_QUERY = frozenset(
    {
        *("AppendReady", "BgworkerShutdown", "BgworkerStartup", "BgWorkerShutdown", "BgWorkerStartup"),
        *("BtreePage", "ExecuteGather", "HashBatchAllocate", "HashBatchElect", "HashBatchLoad"),
        *("HashBuildAllocate", "HashBuildElect", "HashBuildHashInner", "HashBuildHashOuter"),
        *("HashGrowBatchesAllocate", "HashGrowBatchesDecide", "HashGrowBatchesElect"),
        *("HashGrowBatchesFinish", "HashGrowBatchesReallocate", "HashGrowBatchesRepartition"),
        *("HashGrowBucketsAllocate", "HashGrowBucketsElect", "HashGrowBucketsReallocate"),
        *("HashGrowBucketsReinsert", "MessageQueueInternal", "MessageQueuePutMessage"),
        *("MessageQueueReceive", "MessageQueueSend", "ParallelBitmapScan", "ParallelCreateIndexScan"),
        "ParallelFinish",
    }
)
_NAMES: dict[str, frozenset[str]] = {
    READ: READS,
    TEMPORARY_FILES: TEMPORARY,
    WAL_FLUSH: WAL,
    PARALLEL: PARALLEL_QUERY,
    # The lock of a part of the WAL's buffers, and of the next page of them (xlog.c, AdvanceXLInsertBuffer).
    WAL_INSERT: frozenset({"WALInsert", "WALBufMapping", "WalInsert"}),
    # Pages that leave shared buffers, by whoever needs the room, and their way to the disk.
    DATA_WRITE: frozenset({"DataFileWrite", "DataFileFlush", "DataFileSync", "DataFileImmediateSync"}),
    # One that adds pages, and those that wait for its lock to do so too (hio.c, bufmgr.c).
    EXTENSION: frozenset({"DataFileExtend", "DataFileTruncate", "extend"}),
    # Status of transactions, subtransactions, row locks shared by several, NOTIFY (slru.c).
    SLRU: frozenset(
        {
            *("SLRURead", "SLRUWrite", "SLRUSync", "SLRUFlushSync", "SlruRead", "SlruWrite", "SlruSync"),
            *("SlruFlushSync", "XactBuffer", "CommitTsBuffer", "SubtransBuffer", "MultiXactOffsetBuffer"),
            *("MultiXactMemberBuffer", "NotifyBuffer", "SerialBuffer", "XactSLRU", "CommitTsSLRU"),
            *("SubtransSLRU", "MultiXactOffsetSLRU", "MultiXactMemberSLRU", "NotifySLRU", "SerialSLRU"),
            *("MultixactCreation", "MultiXactGen", "MultiXactTruncation"),
        }
    ),
    CHECKPOINT: frozenset(
        {
            *("CheckpointStart", "CheckpointDone", "CheckpointDelayStart", "CheckpointDelayComplete"),
            *("CheckpointWriteDelay", "RegisterSyncRequest", "CheckpointerComm", "ControlFileSync"),
            *("ControlFileWrite", "ControlFileSyncUpdate", "ControlFileWriteUpdate", "ControlFileRead"),
            "CheckpointDelay",
        }
    ),
    ROW_LOCK: frozenset({"transactionid", "tuple"}),
    # For standbys that confirm a commit, and for a place of the log that has come (WAIT FOR LSN of 19).
    STANDBY: frozenset({"SyncRep", "WaitForWalFlush", "WaitForWalReplay", "WaitForWalWrite"}),
    # Queues for ProcArrayLock and for the transaction status, whose first one works for all of them
    # (procarray.c, ProcArrayGroupClearXid; clog.c); a spinlock that is held too long (s_lock.c).
    LIGHT: frozenset(
        {
            *("ProcArrayGroupUpdate", "ProcarrayGroupUpdate", "XactGroupUpdate", "ClogGroupUpdate"),
            "SpinDelay",
        }
    ),
    SLEEP: frozenset({"PgSleep"}),
    VACUUM_DELAY: frozenset({"VacuumDelay", "VacuumTruncate"}),
    REPLICATION: frozenset(
        {
            *("LibpqwalreceiverConnect", "LibpqwalreceiverReceive", "LibPQWalReceiverConnect"),
            *("LibPQWalReceiverReceive", "WaitForStandbyConfirmation", "WalSenderWaitForWal"),
            *("WalSenderWaitForWAL", "WalSenderWriteData", "BasebackupRead", "BasebackupSync"),
            *("BasebackupWrite", "BaseBackupRead", "BaseBackupSync", "BaseBackupWrite", "BaseBackupThrottle"),
            *("RecoveryApplyDelay", "RecoveryRetrieveRetryInterval", "WalSummarizerError", "WalRead"),
            *("WALRead", "WalSummaryRead", "WalSummaryWrite", "WalSummaryReady", "WalCopyRead"),
            *("WalCopySync", "WalCopyWrite", "WALCopyRead", "WALCopySync", "WALCopyWrite"),
            *("WalsenderTimelineHistoryRead", "WALSenderTimelineHistoryRead", "WalReceiverExit"),
            *("WalReceiverUpstreamCatchup", "WalReceiverWaitStart", "LogicalApplySendData"),
            *("LogicalParallelApplyStateChange", "LogicalSyncData", "LogicalSyncStateChange"),
            *("ReplicationOriginDrop", "ReplicationSlotDrop", "ReplicationSlotRead"),
            *("ReplicationSlotRestoreSync", "ReplicationSlotSync", "ReplicationSlotWrite"),
            *("ReorderBufferRead", "ReorderBufferWrite", "ReorderLogicalMappingRead", "SnapbuildRead"),
            *("SnapbuildSync", "SnapbuildWrite", "LogicalRewriteCheckpointSync", "LogicalRewriteMappingSync"),
            *("LogicalRewriteMappingWrite", "LogicalRewriteSync", "LogicalRewriteTruncate"),
            *("LogicalRewriteWrite", "ArchiveCleanupCommand", "ArchiveCommand", "BackupWaitWalArchive"),
            *("RecoveryConflictSnapshot", "RecoveryConflictTablespace", "RecoveryEndCommand"),
            *("RecoveryPause", "RestoreCommand", "Promote", "TimelineHistoryFileSync"),
            *("TimelineHistoryFileWrite", "TimelineHistoryRead", "TimelineHistorySync"),
            "TimelineHistoryWrite",
        }
    ),
    OTHER_FILES: frozenset(
        {
            *("CopyFileCopy", "CopyFileRead", "CopyFileWrite", "CopyFromRead", "CopyToWrite", "DsmAllocate"),
            *("DsmFillZeroWrite", "DSMAllocate", "DSMFillZeroWrite", "LockFileAddtodatadirRead"),
            *("LockFileAddtodatadirSync", "LockFileAddtodatadirWrite", "LockFileCreateRead"),
            *("LockFileCreateSync", "LockFileCreateWrite", "LockFileRecheckdatadirRead", "RelationMapRead"),
            *("RelationMapReplace", "RelationMapWrite", "TwophaseFileRead", "TwophaseFileSync"),
            *("TwophaseFileWrite", "VersionFileSync", "VersionFileWrite", "WalBootstrapSync"),
            *("WalBootstrapWrite", "WALBootstrapSync", "WALBootstrapWrite", "LockFileAddToDataDirRead"),
            *("LockFileAddToDataDirSync", "LockFileAddToDataDirWrite", "LockFileReCheckDataDirRead"),
        }
    ),
    OTHER: frozenset({"BackendTermination", "ProcSignalBarrier", "SafeSnapshot", "RepackWorkerExport"}),
}
_GROUP_OF_NAME = {name: group for group, names in _NAMES.items() for name in names}
# Of types whose other events are all alike. 19 has locks of pages' contents as a type of their own (Buffer),
# and the pins that a cleanup waits for among them.
_GROUP_OF_TYPE = {
    "Activity": IDLE,
    "Client": CLIENT,
    "Lock": LOCK,
    "LWLock": LIGHT,
    "Buffer": LIGHT,
    "BufferPin": LIGHT,
    "Extension": OTHER,
    "InjectionPoint": OTHER,
}


def group_of(wait_event_type: str, wait_event: str) -> str:
    """What a wait is for; '' for an event that no group has."""
    return _GROUP_OF_NAME.get(wait_event) or _GROUP_OF_TYPE.get(wait_event_type, "")
