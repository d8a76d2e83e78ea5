-- Who may do what in the database, run by its administrator in Entra ID once,
-- and again after a restore into another server:
--
--   sqlcmd -S <sqlServer> -d orders -G -i infra/sql/grant.sql -v app="<identityName>" migrator="<name>"
--
-- app is the output identityName of infra/main.bicep. migrator is who runs
-- `handler migrate up`: a group, a person or a pipeline's identity, by its name
-- in Entra ID.

IF DATABASE_PRINCIPAL_ID(N'$(app)') IS NULL
    CREATE USER [$(app)] FROM EXTERNAL PROVIDER;
ALTER ROLE db_datareader ADD MEMBER [$(app)];
ALTER ROLE db_datawriter ADD MEMBER [$(app)];

IF DATABASE_PRINCIPAL_ID(N'$(migrator)') IS NULL
    CREATE USER [$(migrator)] FROM EXTERNAL PROVIDER;
ALTER ROLE db_datareader ADD MEMBER [$(migrator)];
ALTER ROLE db_datawriter ADD MEMBER [$(migrator)];
ALTER ROLE db_ddladmin ADD MEMBER [$(migrator)];
